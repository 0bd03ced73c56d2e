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
				at.Top = in.tracker.topOf(&at)
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

// Longest is when the handler began that runs the longest, or owes its answer; exact to a millisecond. Zero: none does.
func (e *Engine) Longest() (began time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.workers {
		if w.busy && (began.IsZero() || w.seenAt.Before(began)) {
			began = w.seenAt
		}
	}
	if l := e.outs.oldest; l != nil && (began.IsZero() || l.since.Before(began)) {
		began = l.since
	}
	return began
}

// Failing is the record that has failed for the longest; nil: none does.
func (e *Engine) Failing() *protocol.FailingRecord {
	e.mu.Lock()
	defer e.mu.Unlock()
	var worst *node
	for _, in := range e.inputs {
		for n, left := in.tracker.head, in.tracker.failing; n != nil && left > 0; n = n.next {
			if n.fail == nil {
				continue
			}
			left--
			if n.fail.attempts > 0 && (worst == nil || n.fail.since.Before(worst.fail.since)) {
				worst = n
			}
		}
	}
	if worst == nil {
		return nil
	}
	r := &worst.rec
	return &protocol.FailingRecord{
		Storage: r.Storage, Partition: r.Partition, Key: shownKey(r.Key), Why: cut(worst.fail.err.Error(), protocol.MaxWhyBytes-len("…")), Failing: worst.fail.stored(r.Offset),
	}
}
