package verify

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/ringfence/ringfence/internal/harness"
)

// worker is a consumer or a producer through all of its starts.
type worker struct {
	spec Spec
	proc *harness.Process
	over bool // it is not started again
}

// lastWork is how long a process may take to leave.
const lastWork = 20 * time.Second

// hire makes the workers, and starts none.
func (r *run) hire() {
	r.workers = make(map[string]*worker)
	spec := Spec{Topic: r.result.Topic, Group: r.result.Group, History: r.Dir, TTL: r.TTL, Parent: os.Getpid()}
	for i := range r.Consumers {
		s := spec
		s.Name, s.Subscription = consumerName(i), r.Subscriptions
		r.workers[s.Name] = &worker{spec: s}
	}
	for i := range r.Producers {
		s := spec
		s.Name = producerName(i)
		keys := r.Keys / r.Producers
		if i < r.Keys%r.Producers {
			keys++
		}
		sure := i%2 == 0 || r.Subscriptions // its judge has to know what is there
		s.Load = &Load{
			Idempotent: sure, Keys: keys, Rate: float64(r.Rate) / float64(r.Producers), Size: r.Size,
			Resume: sure,
		}
		r.workers[s.Name] = &worker{spec: s}
	}
}

// all are the names of the consumers or of the producers.
func (r *run) all(producers bool) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r.workers)) {
		if (r.workers[name].spec.Load != nil) == producers {
			names = append(names, name)
		}
	}
	return names
}

// start starts a worker, for the first time or again.
func (r *run) start(name string) error {
	w := r.workers[name]
	w.spec.Start++
	binary, args, env := r.Command(w.spec)
	p, err := harness.Start(name, binary, args, env)
	if err != nil {
		return err
	}
	w.proc = p
	return nil
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
	r.hurting[f] = w.proc
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

// end lets a fault end. False: it is too early.
func (r *run) end(f *Fault) (bool, error) {
	w, p := r.workers[f.Process], r.hurting[f]
	switch {
	case p == nil || w.proc != p: // it did not begin, or has been started again
		return true, nil
	case f.Kind == Stop:
		_ = p.Thaw() // it may have ended
		return true, nil
	case !p.Ended():
		return false, nil // it is still leaving
	}
	if err := r.farewell(w); err != nil {
		return true, err
	}
	return true, r.start(f.Process)
}

// farewell notes how a process ended.
func (r *run) farewell(w *worker) error {
	p := w.proc
	switch {
	case p.WasKilled() || p.ExitCode() == 0 && p.WasAsked():
		return nil
	case p.ExitCode() == ExitAway:
		r.result.Away++
		return nil
	case p.WasAsked() && p.ExitCode() == -1 && len(p.Output()) == 0:
		return nil // it was asked before it listened
	}
	if !r.result.Began {
		return fmt.Errorf("%s ended while it was starting (exit code %d): %s", p.Name, p.ExitCode(), p.Tail())
	}
	r.result.Deaths = append(r.result.Deaths, fmt.Sprintf("%s (exit code %d): %s", p.Name, p.ExitCode(), p.Tail()))
	if len(r.result.Deaths) >= tooManyDeaths {
		return fmt.Errorf("%d processes ended by themselves, the last was %s: %s: %w", tooManyDeaths, p.Name, p.Tail(), ErrBroken)
	}
	return nil
}

const tooManyDeaths = 20

// revive starts again who ended though nobody wanted it to.
func (r *run) revive() error {
	for _, name := range slices.Sorted(maps.Keys(r.workers)) {
		w := r.workers[name]
		if w.proc == nil || w.over || !w.proc.Ended() || w.proc.WasKilled() || w.proc.WasAsked() {
			continue // who was, is started again when its fault ends
		}
		if err := r.farewell(w); err != nil {
			return err
		}
		if err := r.start(name); err != nil {
			return err
		}
	}
	return nil
}

// dismiss asks workers to leave and returns when they are gone. Who takes too long is killed.
func (r *run) dismiss(names []string) error {
	for _, name := range names {
		w := r.workers[name]
		w.over = true
		if w.proc != nil {
			_ = w.proc.Thaw() // it may have ended
			_ = w.proc.Leave()
		}
	}
	patience := time.After(lastWork)
	for _, name := range names {
		w := r.workers[name]
		if w.proc == nil {
			continue
		}
		select {
		case <-w.proc.Done():
		case <-patience:
			_ = w.proc.Kill()
			r.result.Notes = append(r.result.Notes, fmt.Sprintf("%s did not leave within %s and was killed", name, lastWork))
			patience = time.After(0) // nor wait for the others
		}
		<-w.proc.Done()
		if err := r.farewell(w); err != nil {
			return err
		}
	}
	return nil
}
