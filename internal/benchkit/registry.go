package benchkit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/registry"
)

// RegistryConfig says what to measure; zero fields have defaults.
type RegistryConfig struct {
	Common
	Units   int // whose checkpoints are written; default 1,024
	Batch   int // checkpoints of one call; default 256
	Callers int // at the same time; default 4
}

func (c RegistryConfig) withDefaults() (RegistryConfig, error) {
	c.Common = c.Common.withDefaults()
	setDefault(&c.Units, 1024)
	setDefault(&c.Batch, 256)
	setDefault(&c.Callers, 4)
	var d demand
	d.positive("--units", c.Units)
	d.positive("--batch", c.Batch)
	d.positive("--callers", c.Callers)
	d.that(c.Units >= c.Batch*c.Callers, "--units %d is less than --batch %d times --callers %d: no two may write the same checkpoint", c.Units, c.Batch, c.Callers)
	return c, errors.Join(d.errs...)
}

// checkpointFloor is the number of fenced checkpoints a second that is promised of a store, by
// the scheme of its URL.
var checkpointFloor = map[string]float64{
	"postgres": 50_000, "postgresql": 50_000,
	"redis": 100_000, "rediss": 100_000,
	"etcd": 30_000, "etcds": 30_000,
}

// seenCeiling is within how many ms others see a member come or go, median, of the stores in
// which that is promised.
var seenCeiling = map[string]float64{
	"": 20, "file": 20,
	"postgres": 20, "postgresql": 20,
	"redis": 20, "rediss": 20,
	"etcd": 20, "etcds": 20,
}

// Registry measures the coordination store: fenced checkpoints, in batches and one at a time, and
// how soon other processes see that a session's entry comes and goes.
func Registry(ctx context.Context, c RegistryConfig) (_ *Result, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, err
	}
	dir, rf, end, err := c.aside(ctx, ringfence.Sync)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	other, err := c.open(ctx, dir, ringfence.Sync)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	r := &registryRun{c: &c, rf: rf, other: other}
	defer func() { err = errors.Join(err, r.leave(ctx)) }()
	if err := r.claim(ctx); err != nil {
		return nil, err
	}
	game := contest{rest: c.rest}
	scheme := c.registryScheme()
	bare, err := r.enterBare(ctx, &game)
	if err != nil {
		return nil, err
	}
	batched := game.add(fmt.Sprintf("fenced checkpoints, %d a call, %s", c.Batch, many(c.Callers, "caller")), "checkpoints/s", bare, 1,
		func(h *histogram) (float64, error) { return r.write(ctx, h, c.Callers, c.Batch) })
	if floor := checkpointFloor[scheme]; floor > 0 {
		batched.atLeast("fenced checkpoints in batches", floor)
	}
	if bare != "" {
		batched.ratioAtLeast("fenced checkpoints in batches, of the same request issued bare", 0.5)
	}
	game.add("fenced checkpoints, one a call, one caller", "checkpoints/s", "", 1,
		func(h *histogram) (float64, error) { return r.write(ctx, h, 1, 1) })
	for _, leaves := range []bool{false, true} {
		name := "a session's entry comes, seen by another process"
		if leaves {
			name = "a session closes, seen by another process"
		}
		e := game.add(name, "ms, median", "", 1, func(h *histogram) (float64, error) { return r.seen(ctx, h, leaves) })
		if ceiling := seenCeiling[scheme]; ceiling > 0 {
			e.atMost(name+", median", ceiling)
		}
	}
	rows, figures, err := game.run(c.Rounds, c.Logf)
	if err != nil {
		return nil, err
	}
	if err := r.verify(ctx); err != nil {
		return nil, err
	}
	return &Result{Bench: "registry", Rows: rows, Figures: figures, About: fmt.Sprintf("%s of one member, %s of %s taken in turn%s",
		many(c.Units, "unit"), many(c.Rounds, "round"), c.For, c.about())}, nil
}

// registryRun is a member that owns all units of a group.
type registryRun struct {
	c         *RegistryConfig
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
// alone, where the store's driver offers that; it returns its name.
func (r *registryRun) enterBare(ctx context.Context, game *contest) (string, error) {
	const name = "the same request, issued bare"
	sends := make([]func(context.Context) error, r.c.Callers)
	for i := range sends {
		txns := make([]registry.Txn, r.c.Batch)
		for j := range txns {
			unit := i*r.c.Batch + j
			txns[j] = r.commit(unit)
			txns[j].Checks = txns[j].Checks[:1] // it is sent many times, and the other is on what it changes
		}
		send, err := r.rf.Registry().Bare(ctx, txns)
		if send == nil || err != nil {
			return "", err
		}
		sends[i] = send
	}
	game.add(name, "checkpoints/s", "", 1, func(h *histogram) (float64, error) {
		return r.callers(h, r.c.Callers, r.c.Batch, func(i int) error { return sends[i](ctx) })
	})
	return name, nil
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
func (r *registryRun) write(ctx context.Context, h *histogram, callers, batch int) (float64, error) {
	if err := r.look(ctx); err != nil {
		return 0, err
	}
	txns := make([]registry.Txn, callers*batch)
	return r.callers(h, callers, batch, func(i int) error {
		return r.commits(ctx, i*batch, txns[i*batch:(i+1)*batch])
	})
}

// callers lets goroutines call for a while, and returns the checkpoints a second, batch a call.
func (r *registryRun) callers(h *histogram, callers, batch int, call func(i int) error) (float64, error) {
	var wg sync.WaitGroup
	var total atomic.Int64
	hists, errs := make([]histogram, callers), make([]error, callers)
	began := time.Now()
	for i := range callers {
		wg.Go(func() {
			for last := began; last.Sub(began) < r.c.For && errs[i] == nil; {
				errs[i] = call(i)
				now := time.Now()
				hists[i].add(now.Sub(last))
				last = now
				total.Add(int64(batch))
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	for i := range hists {
		h.merge(hists[i].sparse())
	}
	return float64(total.Load()) / took.Seconds(), errors.Join(errs...)
}

// seen is how long, median, another process takes to see that the entry of a session came, or
// went with the session.
func (r *registryRun) seen(ctx context.Context, h *histogram, leaves bool) (float64, error) {
	const prefix, key, times = "bench/", "bench/session", 20
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	signals, err := r.other.Registry().Watch(ctx, prefix)
	if err != nil {
		return 0, err
	}
	var round histogram
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
				round.add(took)
			}
		}
	}
	h.merge(round.sparse())
	return round.micros(0.5) / 1000, nil
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
