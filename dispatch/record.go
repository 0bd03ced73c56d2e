package dispatch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
)

// Record is a record as a handler gets it, valid until the handler returns, or answers later. Its key, value and
// headers may be kept, and never change; each keeps up to some hundred KiB of its neighbours in memory, so copy
// what is kept for long. Handlers must not write to them.
type Record struct {
	commitlog.Record
	Storage   int // index of the storage topic
	Partition int
	Attempt   int // 1 at the first call since the engine was started; one more than in Position.Failing
	// From and To enclose the record and the offsets around it that hold none: the ends of the
	// records before and this one as they were read. Start is where the engine began in the
	// partition.
	From, To, Start int64

	late *Later  // where its answer comes from; nil: the handler returns it
	data *memory // what it was read into; nil: no engine has read it
}

func (r *Record) stamp() protocol.Stamp { return protocol.Stamp{r.Offset, r.Timestamp} }

// Handler processes one record. nil finishes the record; after an error, or a panic, it is tried
// again later, before any other record of its key. ctx ends when the unit has another owner, and
// when a drain lasts too long. A nil that is returned after ownership was lost does not count.
type Handler func(ctx context.Context, r *Record) error

// state is where a node is in the schedule.
type state uint8

const (
	waiting  state = iota // behind another record of its key
	ready                 // in the ready list
	claimed               // a worker has it
	retrying              // failed, waits for its next attempt
	out                   // its handler has returned, and its answer comes later
)

// node is a record in flight. It is used again when it is finished.
type node struct {
	rec   Record
	hash  uint64
	state state
	keyed bool // it is ordered with others of its key
	lead  bool // the first unfinished record of its key

	prev, next *node          // neighbours among the unfinished, by offset
	before     protocol.Stamp // of the record before it, as tracker.last
	after      int64          // the offset of the record read after it

	behind *node // the next record of its key
	last   *node // leaders only: the last record of its key
	chain  *node // leaders only: the next leader in the same bucket
	link   *node // the next in the ready list
	fail   *failure
}

// failure is what is known of a record that failed at least once.
type failure struct {
	attempts int
	since    time.Time     // of the first failure
	due      time.Time     // of the next attempt
	pause    time.Duration // from the last failure until then
	err      error         // of the last attempt
	why      Why           // OnHeld is asked about it, not the handler; "": the handler is
	next     time.Time     // when the handler would have been asked next
	asked    int           // how often OnHeld has failed
	index    int           // in the retry heap
}

// memory is what records of one read share: the bytes that they lie in, which are free when none of them is
// left in flight, and all else that would be the same in each.
type memory struct {
	live  int
	count int   // live at first
	bytes int64 // approximately
	from  *input
	lost  func() bool // whether no answer counts any more; nil: unknown

	atWork func(Attempt) bool // whether a handler is at it; nil: unknown
	over   atomic.Bool        // of Record.Within: the handler has returned
}

// nodeBytes is what a record in flight costs beyond its key, value and headers.
const nodeBytes = 304

// nodePool keeps nodes for use again, as many as were in flight at the same time.
type nodePool struct{ free []*node }

func (p *nodePool) get() *node {
	if len(p.free) == 0 {
		more := make([]node, 64)
		for i := range more {
			p.free = append(p.free, &more[i])
		}
	}
	k := len(p.free) - 1
	n := p.free[k]
	p.free = p.free[:k]
	return n
}

func (p *nodePool) put(n *node) {
	*n = node{}
	p.free = append(p.free, n)
}
