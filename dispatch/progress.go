package dispatch

import (
	"time"

	"github.com/ringfence/ringfence/group/protocol"
)

// Progress is how far a unit got.
type Progress struct {
	// Positions of all inputs that have one, and those of other partitions in Config.Start.
	Positions []protocol.Position
	// Version changes whenever Positions may have: an unchanged one needs no commit.
	Version uint64
}

// Progress returns the progress now, with at most Config.MaxRanges finished ranges: a crash after
// its commit repeats what is left out. It is cheap, except for ranges, and remains valid after Run
// has returned.
func (e *Engine) Progress() Progress { return e.progress(e.cfg.MaxRanges) }

// Final is Progress with all finished ranges. After a drain its successor repeats nothing.
func (e *Engine) Final() Progress { return e.progress(2 * MostInFlight) }

func (e *Engine) progress(ranges int) Progress {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := Progress{Version: e.version, Positions: make([]protocol.Position, 0, len(e.inputs)+len(e.others))}
	for _, in := range e.inputs {
		if in.placed {
			at := in.tracker.position(ranges)
			if e.cfg.OnHeld != nil {
				at.Failing = in.tracker.failed(max(1, protocol.MaxFailing/len(e.inputs)))
			}
			p.Positions = append(p.Positions, at)
		}
	}
	p.Positions = append(p.Positions, e.others...)
	return p
}

// advanced notes that Progress has changed; the caller holds mu.
func (e *Engine) advanced() {
	e.version++
	if e.cfg.Advanced != nil {
		e.cfg.Advanced()
	}
}

// Version returns that of Progress, without the positions.
func (e *Engine) Version() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.version
}

// Ended reports whether every input is sealed, read to its end and finished.
func (e *Engine) Ended() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, in := range e.inputs {
		if !in.ended || in.tracker.head != nil {
			return false
		}
	}
	return true
}

// Stats is a look inside, for people and metrics.
type Stats struct {
	InFlight int   // records read and not finished
	Bytes    int64 // the memory they take, approximately
	Ready    int   // of them, could run now
	Running  int   // handlers at work
	Out      int   // their handlers have returned, and the answers come later
	Retrying int   // failed and waiting for their next attempt
	Finished uint64
	Failed   uint64 // attempts
	// Oldest is the timestamp, in Unix milliseconds, of the lowest unfinished record; 0: none is.
	Oldest int64
	// Longest is how long a handler has been running, or owes its answer; exact to a millisecond.
	Longest time.Duration
	Paused  bool
}

// Stats returns the state now.
func (e *Engine) Stats() Stats {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Stats{
		InFlight: e.sched.unfinished, Bytes: e.retained, Ready: e.sched.ready, Running: e.running, Out: e.outs.count,
		Retrying: len(e.sched.retries), Finished: e.done, Failed: e.failed, Paused: e.paused,
	}
	for _, in := range e.inputs {
		if h := in.tracker.head; h != nil && (s.Oldest == 0 || h.rec.Timestamp < s.Oldest) {
			s.Oldest = h.rec.Timestamp
		}
	}
	for _, w := range e.workers {
		if w.busy {
			s.Longest = max(s.Longest, now.Sub(w.seenAt))
		}
	}
	if l := e.outs.oldest; l != nil {
		s.Longest = max(s.Longest, now.Sub(l.since))
	}
	return s
}

// Blocked is a key whose first unfinished record fails.
type Blocked struct {
	Key                []byte // nil: a record without a key
	Storage, Partition int
	Offset             int64 // of the failing record
	Attempts           int
	Since              time.Time // of the first failure
	Next               time.Time // when it is tried again
	Err                error     // of the last attempt
	Followers          int       // records of the key read behind it, which wait
}

// Blocked lists up to limit failing records, which hold back their keys.
func (e *Engine) Blocked(limit int) []Blocked {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Blocked
	for _, n := range e.sched.retries {
		if len(out) >= limit {
			break
		}
		b := Blocked{
			Key: n.rec.Key, Storage: n.rec.Storage, Partition: n.rec.Partition, Offset: n.rec.Offset,
			Attempts: n.fail.attempts, Since: n.fail.since, Next: n.fail.due, Err: n.fail.err,
		}
		for f := n.behind; f != nil; f = f.behind {
			b.Followers++
		}
		out = append(out, b)
	}
	return out
}
