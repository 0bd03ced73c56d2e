package dispatch

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
)

// ErrEarlier stands for the error of an attempt before the engine was started.
var ErrEarlier = errors.New("it failed before its owner was started; what it answered then is not kept")

// failed lists the failing records, sorted, at most limit of them: of more, those nearest to being
// given up.
func (t *tracker) failed(limit int) []protocol.Failing {
	if t.failing+len(t.recalled) == 0 {
		return nil
	}
	all := make([]protocol.Failing, 0, t.failing+len(t.recalled))
	for n, left := t.head, t.failing; n != nil && left > 0; n = n.next {
		f := n.fail
		if f == nil {
			continue
		}
		left--
		if at := f.stored(n.rec.Offset); at.Attempts > 0 {
			all = append(all, at)
		}
	}
	all = append(all, t.recalled...) // what was not read yet lies above
	if len(all) > limit {
		slices.SortStableFunc(all, func(a, b protocol.Failing) int { return cmp.Compare(b.Attempts, a.Attempts) })
		all = all[:limit]
		slices.SortFunc(all, func(a, b protocol.Failing) int { return cmp.Compare(a.Offset, b.Offset) })
	}
	return all
}

// topOf is the highest record that a position names as finished or failing; none: unknown, or it names none.
func (t *tracker) topOf(p *protocol.Position) protocol.Stamp {
	top := p.Top
	if len(p.Failing) == 0 {
		return top
	}
	if len(t.recalled) > 0 && t.top[0] >= top[0] {
		top = t.top
	}
	for n := t.tail; n != nil && n.rec.Offset >= top[0]; n = n.prev {
		if n.fail != nil {
			return n.rec.stamp()
		}
	}
	return top
}

// stored is what an heir has to know. The last attempt, after which the record is given up, counts once
// OnHeld has taken the record: its error is lost until then, and the heir has to ask again.
func (f *failure) stored(offset int64) protocol.Failing {
	out := protocol.Failing{
		Offset: offset, Attempts: min(f.attempts, protocol.MaxAttempts), Since: max(0, f.since.UnixMilli()), Due: max(0, f.due.UnixMilli()), Pause: max(0, f.pause.Milliseconds()),
	}
	switch f.why {
	case "":
	case SpentAttempts, Refused:
		out.Attempts, out.Pause = out.Attempts-1, 0
	default:
		out.Due = max(0, f.next.UnixMilli())
	}
	return out
}

// recall gives a record that was just read its failures from before the start. Its pause, by this host's
// clock, is never longer than it was, nor than Longest. If it lies beyond HoldFor, the earlier owner was
// about to give the record to OnHeld, or had begun to.
func (e *Engine) recall(in *input, n *node) {
	t := &in.tracker
	for len(t.recalled) > 0 && t.recalled[0].Offset < n.rec.Offset {
		t.recalled = t.recalled[1:] // it was trimmed, or is finished
	}
	if len(t.recalled) == 0 || t.recalled[0].Offset != n.rec.Offset {
		return
	}
	f := t.recalled[0]
	t.recalled = t.recalled[1:]
	if e.cfg.OnHeld == nil {
		return
	}
	pause := time.Duration(min(f.Pause, e.cfg.Retry.Longest().Milliseconds())) * time.Millisecond
	now := time.Now()
	wait := min(time.UnixMilli(f.Due).Sub(now), pause)
	due := now.Add(wait) // from now on, by the monotonic clock
	n.fail = &failure{attempts: e.cfg.Retry.made(f.Attempts), since: time.UnixMilli(f.Since), due: due, pause: pause, err: ErrEarlier}
	t.failing++
	if due.After(now) && !e.cfg.Retry.holds(due.Sub(n.fail.since)) {
		e.giveAway(n, HeldLong, now)
	}
}

// made is how many attempts were made before, at most so many that another one can be counted.
func (r *Retry) made(attempts int) int {
	if r.MaxAttempts > 0 {
		return min(attempts, r.MaxAttempts)
	}
	return min(attempts, protocol.MaxAttempts-1)
}
