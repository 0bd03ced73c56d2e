// Package demo is the story that "ringfence demo" tells with real processes: consumers share
// the partitions of a topic, one is killed with kill -9, one is stopped beyond its lease, and an
// independent checker judges the history that all of them wrote.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/history"
)

// Config is what the demo is told.
type Config struct {
	Partitions int
	Consumers  int
	Messages   int
	InProcess  bool // the consumers are goroutines, and crashes are played
	Fresh      bool // the stores are new and are removed afterwards: no name can be taken
	Keep       bool // leave topic and group when the stores are not new

	// Client says where records and coordination live; Dir holds them, unless URLs name others,
	// and the histories.
	Client ringfence.Config
	Dir    string

	// Binary and MemberArgs make the command line of a consumer process; MemberEnv is added to its
	// environment: URLs, because a command line shows in the list of processes.
	Binary     string
	MemberArgs func(MemberSpec) []string
	MemberEnv  []string

	Out     io.Writer
	Control func(sequence string) string // makes Out pass on a sequence for a terminal; nil: no colours
	Logger  *slog.Logger
}

// MemberSpec names one start of a consumer process.
type MemberSpec struct {
	Name    string
	Topic   string
	Group   string
	History string
	TTL     time.Duration
	Work    time.Duration
}

// The pace of the story.
const (
	sessionTTL = time.Second
	recordWork = 2 * time.Millisecond
	patience   = 20 * time.Second // for anything that should take milliseconds
	keyCount   = 200
)

// Result is what came of it.
type Result struct {
	Partitions int     `json:"partitions"`
	Consumers  int     `json:"consumers"`
	InProcess  bool    `json:"in_process"`
	Seconds    float64 `json:"seconds"`

	// Owners is who had what after each scene that changed it.
	Owners []Owners `json:"owners"`

	// Takeover is the time from kill -9 until the last partition of the dead had a new owner;
	// FirstRecord until the new owners had begun with the first record of each.
	TakeoverMillis    float64 `json:"takeover_ms"`
	FirstRecordMillis float64 `json:"first_record_ms"`
	MovedOnReturn     int     `json:"moved_on_return"` // partitions that moved when the dead came back
	LeastOnReturn     int     `json:"least_on_return"` // and how many had to
	ExpiryMillis      float64 `json:"expiry_ms"`       // from SIGSTOP until others owned its partitions
	StaleCommits      int64   `json:"stale_commits"`   // that the stopped one wrote when it woke up
	StaleRefused      int64   `json:"stale_refused"`

	Produced   int64    `json:"produced"`
	Delivered  int64    `json:"delivered"`
	Duplicated int64    `json:"duplicated"`
	InFlight   int64    `json:"in_flight"` // the bound of Duplicated
	Lost       int64    `json:"lost"`
	Reordered  int64    `json:"reordered"`
	Refused    int64    `json:"refused_commits"`
	Takeovers  int64    `json:"takeovers"`
	Handoffs   int64    `json:"handoffs"`
	Broken     []string `json:"broken"` // promises; empty: all were kept
}

// Owners is who has which partitions at a moment; of who is dead there is no entry.
type Owners struct {
	Scene      int              `json:"scene"` // as the story counts them
	Partitions map[string][]int `json:"partitions"`
}

// ErrBroken says that a promise was broken: the result says which.
var ErrBroken = errors.New("a promise was broken")

func (c *Config) validate() error {
	var errs []error
	atLeast := func(name string, n, least, most int) {
		if n < least || n > most {
			errs = append(errs, fmt.Errorf("%s is %d; expected %d to %d: %w", name, n, least, most, fault.Invalid))
		}
	}
	atLeast("partitions", c.Partitions, 1, 256)
	atLeast("consumers", c.Consumers, 2, 26)
	atLeast("messages", c.Messages, 100, 10_000_000)
	return errors.Join(errs...)
}

// Run tells the story and judges it. The error is ErrBroken when a promise was broken, and
// something else when the story could not be told to its end.
func Run(ctx context.Context, c Config) (*Result, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(c.Dir, "history"), 0o755); err != nil {
		return nil, fmt.Errorf("demo directory: %w", err)
	}
	st, err := openStage(ctx, &c)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	err = st.play(ctx)
	err = errors.Join(err, st.clear())
	if err != nil {
		return &st.result, err
	}
	st.result.Seconds = time.Since(began).Seconds()
	if err := st.judge(); err != nil {
		return &st.result, err
	}
	return &st.result, nil
}

// play is the story.
func (st *stage) play(ctx context.Context) error {
	for _, scene := range []func(context.Context) error{st.gather, st.work, st.crash, st.comeBack, st.sleepwalk, st.finish} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	return nil
}

// gather starts the consumers.
func (st *stage) gather(ctx context.Context) error {
	st.screen.scene("%s share the %d partitions of a topic", st.cast(), st.Partitions)
	for i := range st.Consumers {
		if err := st.start(ctx, name(i)); err != nil {
			return err
		}
	}
	if _, err := st.await(ctx, "every consumer has its share", st.balanced); err != nil {
		return err
	}
	return st.showOwners(ctx)
}

// work produces the first part and watches it being consumed.
func (st *stage) work(ctx context.Context) error {
	st.screen.scene("Records of %d keys are produced and processed", keyCount)
	began := time.Now()
	if err := st.produce(ctx, st.Messages/4); err != nil {
		return err
	}
	stored := time.Since(began)
	if _, err := st.await(ctx, "the first records are processed", caughtUp); err != nil {
		return err
	}
	st.screen.say("%d records stored in %s and processed in %s, in order for each key", st.produced, ms(stored), ms(time.Since(began)))
	return nil
}

// crash kills the first consumer in the middle of its work.
func (st *stage) crash(ctx context.Context) error {
	before, err := st.info(ctx)
	if err != nil {
		return err
	}
	victim := st.owners(before)[0]
	st.screen.scene("kill -9 %s, in the middle of its work", st.describe(victim))
	if err := st.produce(ctx, st.Messages/4); err != nil { // more than they can do at once
		return err
	}
	if before, err = st.info(ctx); err != nil {
		return err
	}
	at := history.Now()
	if err := st.kill(victim); err != nil {
		return err
	}
	if _, err := st.await(ctx, "the others have its partitions", st.without(victim)); err != nil {
		return err
	}
	if _, err := st.await(ctx, "the others have caught up", caughtUp); err != nil {
		return err
	}
	if err := st.measureTakeover(at, owned(before, victim), victim); err != nil {
		return err
	}
	st.screen.say("every partition had a new owner after %.1f ms, and its next record begun after %.1f ms", st.result.TakeoverMillis, st.result.FirstRecordMillis)
	return st.showOwners(ctx)
}

// comeBack starts the dead consumer again.
func (st *stage) comeBack(ctx context.Context) error {
	who := st.missing()
	st.screen.scene("%s comes back: a new incarnation of the same member", who)
	before, err := st.info(ctx)
	if err != nil {
		return err
	}
	if err := st.start(ctx, who); err != nil {
		return err
	}
	after, err := st.await(ctx, "it has its share again", st.balanced)
	if err != nil {
		return err
	}
	st.result.MovedOnReturn, st.result.LeastOnReturn = moved(before, after), st.Partitions/st.Consumers
	if st.result.MovedOnReturn == 0 {
		st.screen.say("every partition has an owner: it stands by")
	} else {
		st.screen.say("%d partitions moved to it, handed over with their progress; %d did not notice", st.result.MovedOnReturn, st.Partitions-st.result.MovedOnReturn)
	}
	return st.showOwners(ctx)
}

// sleepwalk stops the last consumer until its lease is over, and wakes it up.
func (st *stage) sleepwalk(ctx context.Context) error {
	before, err := st.info(ctx)
	if err != nil {
		return err
	}
	who := st.owners(before)[len(st.owners(before))-1]
	st.screen.scene("SIGSTOP %s until its lease of %s is over, then SIGCONT", st.describe(who), sessionTTL)
	if err := st.produce(ctx, st.Messages/4); err != nil {
		return err
	}
	if before, err = st.info(ctx); err != nil {
		return err
	}
	at := history.Now()
	if err := st.actors[who].freeze(); err != nil {
		return err
	}
	if _, err := st.await(ctx, "the others have its partitions", st.without(who)); err != nil {
		return errors.Join(err, st.actors[who].thaw())
	}
	st.result.ExpiryMillis = float64(history.Now()-at) / 1e6
	st.screen.say("it was given up after %.0f ms; the others went on from its checkpoints", st.result.ExpiryMillis)
	woken := history.Now()
	if err := st.actors[who].thaw(); err != nil {
		return err
	}
	if _, err := st.await(ctx, "it is back in the group", st.balanced); err != nil {
		return err
	}
	if err := st.measureStale(ctx, woken, owned(before, who), who); err != nil {
		return err
	}
	st.screen.say("it woke up and wrote the checkpoints it still had in mind: %d of %d refused by the store", st.result.StaleRefused, st.result.StaleCommits)
	return st.showOwners(ctx)
}

// finish produces the rest, waits for all of it, and lets everybody leave.
func (st *stage) finish(ctx context.Context) error {
	st.screen.scene("The rest is processed, and everybody leaves")
	began := time.Now()
	if err := st.produce(ctx, st.Messages-st.produced); err != nil {
		return err
	}
	if _, err := st.await(ctx, "everything is processed", caughtUp); err != nil {
		return err
	}
	st.screen.say("all %d records are processed after %s", st.produced, ms(time.Since(began)))
	began = time.Now()
	var errs []error
	for _, a := range st.actors {
		errs = append(errs, a.leave())
	}
	for who, a := range st.actors {
		errs = append(errs, a.wait())
		delete(st.actors, who)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	st.screen.say("drained and gone in %s", ms(time.Since(began)))
	return nil
}
