package dispatch

import (
	"context"
	"hash/maphash"
	"log/slog"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
)

// Failure is an attempt at a record that failed, and what becomes of the record; or of all records, when Offset is -1.
type Failure struct {
	Outcome   Outcome
	Topic     string
	Storage   int // index of the storage topic
	Partition int
	Offset    int64
	Key       []byte // nil: none
	Attempt   int    // that failed, from 1
	Err       error  // of the handler, or the answer of an endpoint
}

// Outcome is what becomes of a record after a failure.
type Outcome string

// The outcomes.
const (
	TriedAgain Outcome = "tried again"
	Parked     Outcome = "parked"      // it waits in the journal of a subscription, and its key behind it
	DeadLetter Outcome = "dead letter" // it was given up, and is kept
	Dropped    Outcome = "dropped"     // it was given up, and is gone

	// Of all records of a subscription here, with Offset -1.
	HeldBack Outcome = "held back" // what they go to does not work: no attempt counts until there is an answer
	GoesOn   Outcome = "goes on"   // there was one; Err is nil
	Paused   Outcome = "paused"    // an answer of the endpoint has paused the subscription
)

// FailureOf is the failure of a record that is tried again.
func FailureOf(topic string, r *Record, err error) Failure {
	return Failure{Outcome: TriedAgain, Topic: topic, Storage: r.Storage, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Attempt: r.Attempt, Err: err}
}

// A Teller logs failures as warnings: the first of each outcome and key at once, the others as one line for each outcome
// every tellEvery, with the newest and how many they are. So neither an outage nor a poison record floods the log, and
// a failure of another kind is not lost behind them.
type Teller struct {
	log  *slog.Logger
	also func(Failure) // gets each failure; nil: nothing does

	mu     sync.Mutex
	seed   maphash.Seed
	seen   map[uint64]time.Time // when an outcome and key was told, or counted, last
	lines  map[Outcome]int      // told at once since the last summary
	more   map[Outcome]*unsaid
	timer  *time.Timer // of the next summary; nil: none is due
	closed bool
}

// unsaid are failures that wait for the next summary.
type unsaid struct {
	newest Failure
	count  int
}

const (
	tellEvery    = 10 * time.Second
	tellAnew     = 5 * time.Minute // a key that has not failed for so long is logged at once again
	tellAtOnce   = 20              // lines of an outcome between two summaries
	tellKeys     = 4096            // that are remembered
	tellKeyBytes = 64              // of a key that are shown
	tellErrBytes = 512             // of an error
)

// NewTeller returns a teller that also calls a function, if it is not nil, for each failure: it must not block.
func NewTeller(log *slog.Logger, also func(Failure)) *Teller {
	return &Teller{log: log, also: also, seed: maphash.MakeSeed(), seen: map[uint64]time.Time{}, lines: map[Outcome]int{}, more: map[Outcome]*unsaid{}}
}

// Tell tells a failure now, or with the next summary.
func (t *Teller) Tell(f Failure) {
	if t.also != nil {
		t.also(f)
	}
	if t.atOnce(&f) {
		t.log.Warn("a record failed", about(&f)...)
	}
}

// atOnce says whether to log f now; else the next summary has it.
func (t *Teller) atOnce(f *Failure) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	id := maphash.Comparable(t.seed, [2]string{string(f.Outcome), string(f.Key)})
	last, known := t.seen[id]
	if !known && len(t.seen) >= tellKeys {
		clear(t.seen)
	}
	t.seen[id] = now
	if t.closed || (!known || now.Sub(last) >= tellAnew) && t.lines[f.Outcome] < tellAtOnce {
		t.lines[f.Outcome]++
		t.arm()
		return true
	}
	u := t.more[f.Outcome]
	if u == nil {
		u = &unsaid{}
		t.more[f.Outcome] = u
	}
	u.newest = *f
	u.count++
	t.arm()
	return false
}

// arm sees that there is a summary; the caller holds mu.
func (t *Teller) arm() {
	if t.timer == nil && !t.closed {
		t.timer = time.AfterFunc(tellEvery, t.summarize)
	}
}

// summarize logs what was not told.
func (t *Teller) summarize() {
	t.mu.Lock()
	more := t.more
	t.more, t.timer = map[Outcome]*unsaid{}, nil
	clear(t.lines)
	t.mu.Unlock()
	for _, o := range []Outcome{Dropped, DeadLetter, Parked, TriedAgain} {
		if u := more[o]; u != nil {
			t.log.Warn("more records failed; this is the newest", append([]any{"failures", u.count}, about(&u.newest)...)...)
		}
	}
}

// Close logs what is left; later failures are logged at once.
func (t *Teller) Close() {
	t.mu.Lock()
	if t.timer != nil {
		t.timer.Stop()
	}
	t.closed = true
	t.mu.Unlock()
	t.summarize()
}

// Watch returns a handler that tells t what h fails at, but for attempts that were none, and those whose context has ended.
func (t *Teller) Watch(topic string, h Handler) Handler {
	return func(ctx context.Context, r *Record) error {
		err := h(ctx, r)
		switch {
		case err == nil && r.Late():
			f := FailureOf(topic, r, nil) // r is not valid later
			r.Then(func(err error) error {
				if f.Err = err; failedAt(ctx, err) {
					t.Tell(f)
				}
				return err
			})
		case failedAt(ctx, err):
			t.Tell(FailureOf(topic, r, err))
		}
		return err
	}
}

// failedAt reports whether a handler failed at a record.
func failedAt(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false
	}
	_, none := Uncounted(err)
	return !none
}

// about are the fields of a failure in a log.
func about(f *Failure) []any {
	fields := []any{"outcome", string(f.Outcome), "topic", f.Topic, "storage", f.Storage, "partition", f.Partition, "offset", f.Offset}
	if f.Key != nil {
		fields = append(fields, "key", shownKey(f.Key))
	}
	return append(fields, "attempt", f.Attempt, "error", cut(f.Err.Error(), tellErrBytes))
}

// shownKey is a key as a text of bounded length; one that is no UTF-8 is quoted.
func shownKey(key []byte) string {
	if !utf8.Valid(key) {
		more := ""
		if len(key) > tellKeyBytes {
			key, more = key[:tellKeyBytes], "…"
		}
		return strconv.QuoteToASCII(string(key)) + more
	}
	return cut(string(key), tellKeyBytes)
}

// cut shortens a text to at most so many bytes and a mark.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}
