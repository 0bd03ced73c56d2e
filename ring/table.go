package ring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// slotsName is the consumer group whose units are the slots, below the ring's own prefix.
const slotsName = "slots"

// tableRing is a member of a table ring: of a consumer group whose workers only note which slots
// they own, and under which epoch. Claims, fencing, handoff and takeover are those of package
// group.
type tableRing struct {
	r     *Ring
	group *protocol.Group
	cfg   group.Config
	lease atomic.Pointer[lease] // of the session that the group opened last
	first announcement          // until the group takes it; of run and what it calls
	quit  chan struct{}         // closed when a newer start was announced; of look

	version atomic.Pointer[registry.Version] // of the announcement with that session
	over    chan struct{}                    // closed when the group's member has ended, with err
	err     error
}

func newTable(r *Ring, began announcement) (*tableRing, error) {
	t := &tableRing{r: r, first: began, quit: make(chan struct{}), over: make(chan struct{})}
	reg := registry.New(&prefixed{reg: r.cfg.Registry, prefix: r.keys.table(), open: t.open, enters: t.enters})
	var err error
	if t.group, err = protocol.NewGroup(reg, slotsName); err != nil {
		return nil, err
	}
	r.slots = make([]atomic.Pointer[right], r.meta.Slots)
	t.cfg = group.Config{
		Registry: reg, Group: slotsName, Topic: "ring:" + r.cfg.Name, Units: r.meta.Slots,
		Member: r.cfg.Member, Incarnation: r.cfg.Incarnation,
		SessionTTL: r.cfg.TTL, DrainTimeout: r.cfg.Drain + drainSlack,
		CommitInterval: time.Hour, // nothing is committed
		Logger:         r.cfg.Logger.With("ring", r.cfg.Name),
	}
	return t, t.cfg.Validate()
}

// drainSlack is what a drain may take beyond its pause.
const drainSlack = time.Second

// run is the member of the group, until ctx ends or a newer start is announced; then it hands its
// slots over.
func (t *tableRing) run(outer context.Context) {
	defer close(t.over)
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	t.r.wg.Go(func() { // joined by Close
		select {
		case <-t.quit:
			cancel()
		case <-ctx.Done():
		}
	})
	defer t.drop()
	if t.turn(ctx) == nil {
		t.err = group.Run(ctx, t.cfg, group.WorkerFunc(t.hold))
	}
	if t.err != nil && ctx.Err() == nil {
		t.r.end(fmt.Errorf("ring %q: %w", t.r.cfg.Name, t.err))
	}
}

// turn waits for the end of the start that this one replaces: that start ends its session once it has
// handed its slots over, or the store does when its TTL has passed. Until then it may say yes, so this
// one must not; the group alone would take its slots over at once.
func (t *tableRing) turn(ctx context.Context) error {
	key := t.group.MemberKey(t.r.cfg.Member)
	began, tell := time.Now(), time.Duration(0)
	var changes <-chan struct{}
	for ctx.Err() == nil {
		if changes == nil {
			changes, _ = t.group.Registry().Watch(ctx, key) // without it the timer has to do
		}
		there, err := t.entry(ctx, key)
		switch {
		case errors.Is(err, ErrNotFound) || err == nil && there.Incarnation == t.r.cfg.Incarnation:
			return nil
		case err == nil && time.Since(began) >= tell:
			waited := time.Since(began).Round(time.Second)
			tell = max(2*waited, tellFirst)
			t.r.cfg.Logger.Warn("waiting for an earlier start of this member, which renews its session and may still say yes",
				"ring", t.r.cfg.Name, "member", there.ID, "host", there.Host, "pid", there.PID, "waited", waited)
		}
		select {
		case _, open := <-changes:
			if !open {
				changes = nil
			}
		case <-time.After(retryMost):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// tellFirst is when a start that waits for an earlier one logs that the second time; then it does
// each time that it has waited twice as long.
const tellFirst = 10 * time.Second

// entry reads a member of the group.
func (t *tableRing) entry(ctx context.Context, key string) (m protocol.Member, err error) {
	ctx, cancel := t.r.bound(ctx)
	defer cancel()
	e, err := t.group.Registry().Get(ctx, key)
	if err == nil {
		err = decode(e, &m)
	}
	return m, err
}

// enters returns the check under which this start's entry is made in the group: it is the newest.
func (t *tableRing) enters(key string) []registry.Check {
	v := t.version.Load()
	if v == nil || key != t.group.MemberKey(t.r.cfg.Member) {
		return nil
	}
	return []registry.Check{{Key: t.r.keys.start(t.r.cfg.Member), Version: *v}}
}

// open gives the group its sessions: first the one that this start was announced with.
func (t *tableRing) open(ctx context.Context) (registry.Session, error) {
	began := t.first
	t.first = announcement{}
	if began.session == nil || isClosed(began.session.Done()) {
		if began.session != nil {
			_ = began.session.Close(ctx) // it has ended
		}
		var err error
		if began, err = t.r.announce(ctx, true); err != nil {
			t.r.hint() // perhaps a newer start was announced
			return nil, err
		}
	}
	t.version.Store(&began.version)
	t.lease.Store(newLease(began.session, true))
	return began.session, nil
}

// drop ends the session that the group has not taken.
func (t *tableRing) drop() {
	if t.first.session == nil {
		return
	}
	ctx, cancel := t.r.bound(context.Background())
	defer cancel()
	_ = t.first.session.Close(ctx) // if this fails it expires
}

// hold answers yes for one slot as long as it is this member's.
func (t *tableRing) hold(ctx context.Context, u *group.Unit) error {
	at := &t.r.slots[u.Number()]
	// The group cancels its workers before it opens another session: a lease of the next session
	// is never found here by a worker that was started under the last one and is not yet cancelled.
	l := t.lease.Load()
	if ctx.Err() != nil || l == nil {
		return ctx.Err()
	}
	at.Store(&right{lease: l, epoch: u.Epoch()})
	defer at.Store(nil)
	t.r.hint()
	select {
	case <-ctx.Done():
		return nil
	case <-u.Draining():
	}
	at.Store(nil)
	select {
	case <-time.After(t.r.cfg.Drain): // for work that began under a yes
	case <-ctx.Done():
	}
	return nil
}

func (t *tableRing) lost() <-chan struct{} { return nil }

// look shows the slots as they are.
func (t *tableRing) look(ctx context.Context) (time.Duration, error) {
	ctx, cancel := t.r.bound(ctx)
	defer cancel()
	if err := t.newest(ctx); err != nil {
		return 0, err
	}
	st, err := t.group.Survey(ctx, false)
	if err != nil {
		return 0, err
	}
	t.r.show(tableView(t.r.cfg.Name, t.r.meta.Slots, st))
	if t.established(st) {
		t.r.settle()
	}
	return sweep, nil
}

// newest ends the membership when a newer start was announced.
func (t *tableRing) newest(ctx context.Context) error {
	e, err := t.r.cfg.Registry.Get(ctx, t.r.keys.start(t.r.cfg.Member))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var by memberDoc
	if err := decode(e, &by); err != nil {
		return err
	}
	if by.Incarnation == t.r.cfg.Incarnation {
		return nil
	}
	close(t.quit) // look is not called again
	return permanent{t.r.replaced(by)}
}

// established reports whether the member has its part: the assignment includes it, and it holds all
// that it should.
func (t *tableRing) established(st *protocol.State) bool {
	me, _, ok := st.Member(t.r.cfg.Member)
	if !ok || me.Incarnation != t.r.cfg.Incarnation || st.Assignment == nil || len(st.Assignment.Members) != len(staying(st)) {
		return false
	}
	for _, m := range staying(st) { // as many may be others: one has gone since, and this one has come
		if !slices.Contains(st.Assignment.Members, m.ID+"@"+m.Incarnation) {
			return false
		}
	}
	for n, target := range st.Assignment.Targets {
		if target == me.ID && (n >= len(t.r.slots) || t.r.slots[n].Load() == nil) {
			return false
		}
	}
	return true
}

// leave waits for the group's member, whose context has ended.
func (t *tableRing) leave(context.Context) error {
	<-t.over
	if t.err != nil && !errors.Is(t.err, ErrFenced) && !errors.Is(t.err, ErrNotFound) {
		return fmt.Errorf("ring %q: %w", t.r.cfg.Name, t.err)
	}
	return nil
}
