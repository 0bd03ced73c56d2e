package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/internal/harness"
)

// hireAll adds the consumers and the producers.
func (r *run) hireAll() {
	for i := range r.Consumers {
		r.hire(Spec{Name: consumerName(i), TTL: r.TTL, Subscription: r.Subscriptions})
	}
	for i := range r.Producers {
		keys := r.Keys / r.Producers
		if i < r.Keys%r.Producers {
			keys++
		}
		sure := i%2 == 0 || r.Subscriptions // its judge has to know what is there
		r.hire(Spec{Name: producerName(i), TTL: r.TTL, Load: &Load{
			Idempotent: sure, Keys: keys, Rate: float64(r.Rate) / float64(r.Producers), Size: r.Size,
			Resume: sure,
		}})
	}
}

// all are the names of the consumers or of the producers.
func (r *run) all(producers bool) (names []string) {
	for _, name := range r.names() {
		if (r.workers[name].spec.Load != nil) == producers {
			names = append(names, name)
		}
	}
	return names
}

// begin lets a fault begin.
func (r *run) begin(ctx context.Context, f *Fault) error {
	switch f.Kind {
	case Grow:
		r.change(ctx, f, func(ctx context.Context) error { return r.grow(ctx, f.Partitions) })
		return nil
	case Retire:
		r.change(ctx, f, r.retire)
		return nil
	case Reshard:
		r.change(ctx, f, func(ctx context.Context) error { return r.reshard(ctx, f.Shards) })
		return nil
	}
	w := r.workers[f.Process]
	switch {
	case w.proc.Ended():
		f.Note = "it had ended"
		return nil
	case f.Kind == Term && w.proc.WasAsked():
		f.Note = "it was leaving"
		return nil
	}
	if err := r.tally.follow(); err != nil {
		return err
	}
	r.tally.watch(f)
	f.hurts = w.proc
	if err := hurt(ctx, f.Kind, w.proc); err != nil {
		f.Note = err.Error() // told in the result; it may have ended a moment ago
	} else {
		f.Done = true
	}
	return nil
}

func hurt(ctx context.Context, kind string, p *harness.Process) error {
	switch kind {
	case Kill:
		return p.Kill()
	case Term:
		return p.Leave()
	default:
		return p.Freeze(ctx)
	}
}

// end lets a fault end, unless the process still leaves; then it takes longer than planned.
func (r *run) end(f *Fault) error {
	p := f.hurts
	switch {
	case r.workers[f.Process].proc != p: // it has been started again
	case f.Kind == Stop:
		_ = p.Thaw() // it may have ended
	case !p.Ended():
		return nil
	default:
		f.hurts = nil
		return errors.Join(r.farewell(p), r.start(f.Process))
	}
	f.hurts = nil
	return nil
}

// count notes how a process ended by itself. It is an error once that can't be chance.
func (r *run) count(p *harness.Process) error {
	switch {
	case p.ExitCode() == ExitAway:
		r.result.Away++
		return nil
	case !r.result.Began:
		return fmt.Errorf("%s ended while it was starting (exit code %d): %s", p.Name, p.ExitCode(), p.Tail())
	}
	r.result.Deaths = append(r.result.Deaths, fmt.Sprintf("%s (exit code %d): %s", p.Name, p.ExitCode(), p.Tail()))
	if len(r.result.Deaths) >= tooManyDeaths {
		return fmt.Errorf("%d processes ended by themselves, the last was %s: %s: %w", tooManyDeaths, p.Name, p.Tail(), ErrBroken)
	}
	return nil
}

const tooManyDeaths = 20
