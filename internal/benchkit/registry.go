package benchkit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/registry"
)

// checkpoints measures the coordination store: fenced checkpoints, in batches and one at a time, and
// how soon other processes see that a session's entry comes and goes.
type checkpoints struct {
	Units   int // whose checkpoints are written
	Batch   int // checkpoints of one call
	Callers int // at the same time
}

func (c *checkpoints) settings(s *settings) {
	s.turns()
	s.number(&c.Units, "units", 1024, 1, "units whose checkpoints are written")
	s.number(&c.Batch, "batch", 256, 1, "checkpoints of one call")
	s.number(&c.Callers, "callers", 4, 1, "callers at the same time")
	s.also(func() {
		s.that(c.Units >= c.Batch*c.Callers, "--units %d is less than --batch %d times --callers %d: no two may write the same checkpoint", c.Units, c.Batch, c.Callers)
	})
}

func (c *checkpoints) measure(ctx context.Context, run *run) (err error) {
	r := &registryRun{c: c, d: run.For}
	if r.rf, err = run.open(ctx, "", ringfence.Sync); err != nil {
		return err
	}
	if r.other, err = run.Stores.open(ctx, run.dir, ringfence.Sync); err != nil {
		return err
	}
	run.later(r.other.Close)
	run.later(func() error { return r.leave(ctx) })
	if err := r.claim(ctx); err != nil {
		return err
	}
	bare, err := r.enterBare(ctx, run)
	if err != nil {
		return err
	}
	run.Add(measure.Entry{
		Name: fmt.Sprintf("fenced checkpoints, %d a call, %s", c.Batch, measure.Many(c.Callers, "caller")), Unit: "checkpoints/s", To: bare, Kind: "checkpoints",
		Turn: func(h *measure.Histogram) (float64, error) { return r.write(ctx, h, c.Callers, c.Batch) },
	})
	run.Add(measure.Entry{
		Name: "fenced checkpoints, one a call, one caller", Unit: "checkpoints/s",
		Turn: func(h *measure.Histogram) (float64, error) { return r.write(ctx, h, 1, 1) },
	})
	for _, change := range []string{"a session's entry comes", "a session closes"} {
		run.Add(measure.Entry{
			Name: change + ", seen by another process", Unit: "ms, median", Kind: "seen",
			Turn: func(h *measure.Histogram) (float64, error) { return r.seen(ctx, h, change == "a session closes") },
		})
	}
	if err := run.play(); err != nil {
		return err
	}
	if err := r.verify(ctx); err != nil {
		return err
	}
	return run.done("%s of one member, %s of %s taken in turn", measure.Many(c.Units, "unit"), measure.Many(run.Rounds, "round"), run.For)
}

// registryRun is a member that owns all units of a group.
type registryRun struct {
	c         *checkpoints
	d         time.Duration // of one turn
	rf, other *ringfence.Client
	group     *registry.Group
	session   registry.Session
	grants    []registry.Grant
	// By unit: the offset of its latest checkpoint, and that checkpoint's version. Who writes a unit has it
	// for itself.
	next     []int64
	versions []registry.Version
}

const (
	registryGroup  = "bench"
	registryMember = "bench"
	registryTTL    = 30 * time.Second
)

func (r *registryRun) claim(ctx context.Context) (err error) {
	if r.group, err = r.rf.Registry().Group(registryGroup); err != nil {
		return err
	}
	meta := registry.Meta{Topic: "none", Units: r.c.Units, Assignor: "none"}
	if _, err := r.group.EnsureMeta(ctx, meta); err != nil {
		return err
	}
	reg := r.rf.Registry()
	if r.session, err = reg.OpenSession(ctx, registryTTL); err != nil {
		return err
	}
	st, err := r.group.Load(ctx, false)
	if err != nil {
		return err
	}
	self := registry.Member{ID: registryMember, Incarnation: r.session.ID()}
	_, seen, _ := st.Member(self.ID)
	joined, err := reg.Txn(ctx, r.group.JoinTxn(registry.Join{Member: self, Session: r.session.ID(), Seen: seen, Meta: st.MetaVersion}))
	if err != nil {
		return err
	}
	txns := make([]registry.Txn, r.c.Units)
	r.grants, r.next, r.versions = make([]registry.Grant, r.c.Units), make([]int64, r.c.Units), make([]registry.Version, r.c.Units)
	for i := range txns {
		owner := registry.Owner{Member: self.ID, Incarnation: self.Incarnation, Epoch: registry.NextEpoch(0, st.Time), Reason: "bench", Since: st.Time}
		r.grants[i] = registry.Grant{Unit: i, Epoch: owner.Epoch}
		txns[i] = r.group.ClaimTxn(registry.Claim{Unit: i, Owner: owner, Self: joined[0]})
	}
	return r.apply(ctx, txns, func(i int, v registry.Version) { r.grants[i].Version = v })
}

// apply applies transactions, and tells the version that each of them gave its first put.
func (r *registryRun) apply(ctx context.Context, txns []registry.Txn, done func(i int, v registry.Version)) error {
	results, err := r.rf.Registry().Apply(ctx, txns)
	for i := range results {
		if results[i].Err != nil {
			err = errors.Join(err, results[i].Err)
			continue
		}
		done(i, results[i].Versions[0])
	}
	return err
}

// leave ends the member, so that its group can be removed.
func (r *registryRun) leave(ctx context.Context) error {
	if r.session == nil {
		return nil
	}
	return r.session.Close(context.WithoutCancel(ctx))
}

// enterBare enters the request that the batched checkpoints amount to, sent by the store's client
// alone, where the store tells what it sends; else nil.
func (r *registryRun) enterBare(ctx context.Context, run *run) (*measure.Entry, error) {
	sends := make([]hook.Requests, r.c.Callers)
	for i := range sends {
		txns := make([]registry.Txn, r.c.Batch)
		for j := range txns {
			unit := i*r.c.Batch + j
			txns[j] = r.commit(unit)
			txns[j].Checks = txns[j].Checks[:1] // it is sent many times, and the other is on what it changes
		}
		for _, ctx := range []context.Context{ctx, sends[i].Record(ctx)} { // the first is another request where no checkpoint is there yet
			if err := r.apply(ctx, txns, func(int, registry.Version) {}); err != nil {
				return nil, err
			}
		}
		if sends[i].Len() == 0 {
			return nil, nil
		}
	}
	return run.Add(measure.Entry{Name: "the same request, issued bare", Unit: "checkpoints/s", Turn: func(h *measure.Histogram) (float64, error) {
		return r.callers(h, r.c.Callers, r.c.Batch, func(i int) error { return sends[i].Send(ctx) })
	}}), nil
}

// commit is the transaction with which a member stores the next checkpoint of a unit.
func (r *registryRun) commit(unit int) registry.Txn {
	return r.group.CommitTxn(r.grants[unit], registry.Checkpoint{
		Positions: []registry.Position{{Partition: unit, Next: r.next[unit]}}, Member: registryMember, Updated: time.Now().UnixMilli(),
	}, r.versions[unit])
}

// commits stores the next checkpoints of units from one on.
func (r *registryRun) commits(ctx context.Context, from int, txns []registry.Txn) error {
	for i := range txns {
		r.next[from+i]++
		txns[i] = r.commit(from + i)
	}
	return r.apply(ctx, txns, func(i int, v registry.Version) { r.versions[from+i] = v })
}

// look reads the versions of all checkpoints, which the bare requests have changed.
func (r *registryRun) look(ctx context.Context) error {
	st, err := r.group.Load(ctx, true)
	if err != nil {
		return err
	}
	for i := range st.Units {
		r.versions[i] = st.Units[i].CheckpointVersion
	}
	return nil
}

// write writes checkpoints for a while, each caller those of its own units.
func (r *registryRun) write(ctx context.Context, h *measure.Histogram, callers, batch int) (float64, error) {
	if err := r.look(ctx); err != nil {
		return 0, err
	}
	txns := make([]registry.Txn, callers*batch)
	return r.callers(h, callers, batch, func(i int) error {
		return r.commits(ctx, i*batch, txns[i*batch:(i+1)*batch])
	})
}

// callers lets goroutines call for a while, and returns the checkpoints a second, batch a call.
func (r *registryRun) callers(h *measure.Histogram, callers, batch int, call func(i int) error) (float64, error) {
	calls, err := measure.Callers(callers, r.d, h, call)
	return calls * float64(batch), err
}

// seen is how long, median, another process takes to see that the entry of a session came, or
// went with the session.
func (r *registryRun) seen(ctx context.Context, h *measure.Histogram, leaves bool) (float64, error) {
	const prefix, key, times = "bench/", "bench/session", 20
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	signals, err := r.other.Registry().Watch(ctx, prefix)
	if err != nil {
		return 0, err
	}
	for range times {
		session, err := r.rf.Registry().OpenSession(ctx, registryTTL)
		if err != nil {
			return 0, err
		}
		put := func() error {
			_, err := r.rf.Registry().Txn(ctx, registry.Txn{Puts: []registry.Put{{Key: key, Session: session.ID()}}})
			return err
		}
		quit := func() error { return session.Close(ctx) }
		for _, step := range []struct {
			do   func() error
			want int
			mine bool
		}{{put, 1, !leaves}, {quit, 0, leaves}} {
			began := time.Now()
			done := make(chan error, 1)
			go func() { done <- step.do() }() // joined below
			err := until(ctx, r.other.Registry(), signals, prefix, step.want)
			took := time.Since(began)
			if err := errors.Join(err, <-done); err != nil {
				return 0, err
			}
			if step.mine {
				h.Add(took)
			}
		}
	}
	return h.Micros(0.5) / 1000, nil
}

// until lists after each signal until there are so many entries.
func until(ctx context.Context, reg *registry.Registry, signals <-chan struct{}, prefix string, want int) error {
	for {
		snap, err := reg.List(ctx, prefix)
		if err != nil || len(snap.Entries) == want {
			return err
		}
		if _, open := <-signals; !open {
			return fmt.Errorf("waited %s for a change to be seen", patience)
		}
	}
}

// verify writes every checkpoint once more, in the place of whatever the bare requests wrote, and reads
// them back.
func (r *registryRun) verify(ctx context.Context) error {
	if err := r.look(ctx); err != nil {
		return err
	}
	if err := r.commits(ctx, 0, make([]registry.Txn, len(r.grants))); err != nil {
		return err
	}
	g, err := r.other.Registry().Group(registryGroup)
	if err != nil {
		return err
	}
	st, err := g.Load(ctx, true)
	if err != nil {
		return err
	}
	for i, u := range st.Units {
		if want := r.next[i]; u.Checkpoint == nil || u.Checkpoint.Positions[0].Next != want {
			return fmt.Errorf("the checkpoint of unit %d is not the one that was written last, at offset %d: %+v", i, want, u.Checkpoint)
		}
	}
	return nil
}
