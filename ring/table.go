package ring

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/registry"
)

// slotsName is the consumer group whose units are the slots, below the ring's own prefix.
const slotsName = "slots"

// slotGroup is that group, for looking only.
func slotGroup(reg *registry.Registry, name string) (*registry.Group, error) {
	return registry.New(&below{reg: reg, prefix: keys{name}.table()}).Group(slotsName)
}

// tableRing is a member of a table ring: of a consumer group whose workers do nothing but keep a
// note of which slots are theirs, and under which epoch. Claims, fencing, handoff and takeover
// are those of package group.
type tableRing struct {
	r     *Ring
	group *registry.Group
	cfg   group.Config
	lease atomic.Pointer[lease] // of the session that the group opened last
	over  chan struct{}         // closed when the group's member has ended, with err
	err   error
}

func newTable(r *Ring) (*tableRing, error) {
	t := &tableRing{r: r, over: make(chan struct{})}
	reg := registry.New(&below{reg: r.cfg.Registry, prefix: r.keys.table(), opened: func(s registry.Session) { t.lease.Store(newLease(s).exclusive()) }})
	var err error
	if t.group, err = reg.Group(slotsName); err != nil {
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

// run is the member of the group, until ctx ends; then it hands its slots over.
func (t *tableRing) run(ctx context.Context) {
	defer close(t.over)
	t.err = group.Run(ctx, t.cfg, group.WorkerFunc(t.hold))
	if t.err != nil && ctx.Err() == nil {
		t.r.end(fmt.Errorf("ring %q: %w", t.r.cfg.Name, t.err))
	}
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
	pause := time.NewTimer(t.r.cfg.Drain) // for what was begun under a yes
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
	return nil
}

func (t *tableRing) lost() <-chan struct{} { return nil }

// look shows the slots as they are.
func (t *tableRing) look(ctx context.Context) (time.Duration, error) {
	ctx, cancel := t.r.bound(ctx)
	defer cancel()
	st, err := t.group.Load(ctx, false)
	if err != nil {
		return 0, err
	}
	t.r.show(tableView(t.r.cfg.Name, t.r.meta.Slots, st))
	if t.established(st) {
		t.r.settle()
	}
	return sweep, nil
}

// established says whether the member has its part: who should own what was decided with it in,
// and it holds all that it should.
func (t *tableRing) established(st *registry.State) bool {
	me, _, ok := st.Member(t.r.cfg.Member)
	if !ok || me.Incarnation != t.r.cfg.Incarnation || st.Assignment == nil || len(st.Assignment.Members) != len(staying(st)) {
		return false
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
