package group

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
)

// ErrFenced ends Run when the member was started again elsewhere, and is the cause of a worker's
// context when its unit was lost.
var ErrFenced = fault.Fenced

// ErrStuck in a worker's error says that a handler has not come back and that the worker no longer
// waits for it. The unit is given to another member, if there is one.
var ErrStuck = errors.New("handler stuck")

// Worker runs one unit for as long as the member owns it.
type Worker interface {
	// Run works on the unit from u.Checkpoint until ctx is done or u.Draining is closed. On a drain it takes nothing
	// new, finishes what it has begun and returns nil; u.Track then reports the final checkpoint. When ctx is done
	// the unit may have another owner already: return as soon as possible. A worker that returns by itself is started
	// again after a pause; when its error is an Outrun, in a new epoch. Run is called at the same time for different
	// units, never twice for one.
	Run(ctx context.Context, u *Unit) error
}

// Outrun is an error of a worker that has met an epoch outside of the registry, in a journal say, that
// is as high as its own or higher: a store that went back has given it before, or another store has.
// The unit is claimed anew, above it.
type Outrun interface {
	error
	Above() int64
}

// WorkerFunc makes a function a Worker.
type WorkerFunc func(ctx context.Context, u *Unit) error

// Run calls f.
func (f WorkerFunc) Run(ctx context.Context, u *Unit) error { return f(ctx, u) }

// Progress is how far a worker got.
type Progress struct {
	// Positions become the checkpoint, one a partition; stored positions of other partitions stay. They
	// must never go back, and the slice is the runtime's from then on. nil: nothing to store yet.
	Positions []protocol.Position
	// From is stored with Positions: where the worker's journal is read from, if it keeps one.
	From int64
	// Deliveries is stored with Positions, for people; the same pointer means the same stats.
	Deliveries *protocol.Deliveries
	// Oldest is the start of the longest running handler; zero: none runs. It feeds the watchdog,
	// see Config.ProgressTimeout.
	Oldest time.Time
}

// Unit is a unit while one worker runs it.
type Unit struct {
	grant       protocol.Grant
	member      string
	incarnation string
	start       *protocol.Checkpoint
	why         string
	draining    chan struct{}
	progress    atomic.Pointer[func() Progress]
	pace        *pace  // of the member
	lease       *Lease // of the session it was started in

	// The loop's:
	run     uint64
	cancel  context.CancelCauseFunc
	revoked bool // its end was reported
	stuck   bool // it was reported
	sent    []protocol.Position
	from    int64                // sent with it
	told    *protocol.Deliveries // and that
}

// Number is the unit's number, from 0.
func (u *Unit) Number() int { return u.grant.Unit }

// Epoch is that of the owner: higher at each change of ownership, and at each seek.
func (u *Unit) Epoch() int64 { return u.grant.Epoch }

// Grant is the right to write the unit's checkpoint.
func (u *Unit) Grant() protocol.Grant { return u.grant }

// Member is the ID of the member that runs it.
func (u *Unit) Member() string { return u.member }

// Incarnation identifies this start of the member.
func (u *Unit) Incarnation() string { return u.incarnation }

// Checkpoint is where to start; nil when nothing was ever stored. It must not be changed.
func (u *Unit) Checkpoint() *protocol.Checkpoint { return u.start }

// Why says, for people, how the unit came to this member.
func (u *Unit) Why() string { return u.why }

// Draining is closed when the worker should come to its end.
func (u *Unit) Draining() <-chan struct{} { return u.draining }

// Track sets the function that reports the worker's progress. It is called every commit interval, every second when
// nothing has moved for a while and later every five, and once after the worker returned, possibly beside the
// worker's own code, and must not block.
func (u *Unit) Track(f func() Progress) { u.progress.Store(&f) }

// Run numbers the starts of workers under one grant: a later one has a higher number.
func (u *Unit) Run() uint64 { return u.run }

// Advanced says that the worker got further: after a rest, Track's function is called in the commit
// interval again. It takes a nanosecond while there is no rest.
func (u *Unit) Advanced() { u.pace.advanced() }

func (u *Unit) read() (p Progress, ok bool) {
	f := u.progress.Load()
	if f == nil {
		return Progress{}, false
	}
	p = (*f)()
	return p, true
}

// work runs the worker of a unit to its end and reports how it ended.
func (m *member) work(ctx context.Context, u *Unit) {
	err := call(ctx, m.worker, u)
	ended := core.UnitEnded{Unit: u.Number(), Run: u.run, Err: err, Stuck: errors.Is(err, ErrStuck)}
	if p, ok := u.read(); ok && p.Positions != nil {
		ended.Checkpoint = &protocol.Checkpoint{Positions: p.Positions, From: p.From, Deliveries: p.Deliveries}
	}
	var outrun Outrun
	if errors.As(err, &outrun) {
		ended.Above = outrun.Above()
	}
	u.cancel(nil)
	m.send(message{event: ended})
}

func call(ctx context.Context, w Worker, u *Unit) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the worker of unit %d panicked: %v\n%s", u.Number(), v, debug.Stack())
		}
	}()
	return w.Run(ctx, u)
}
