package group_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// described says that all units are in one phase, with a reason that contains why.
func (c *cluster) described(phase api.Phase, why string) *group.Description {
	c.t.Helper()
	d, err := group.Describe(c.t.Context(), c.admin.Registry(), "g")
	must(c.t, err)
	for _, u := range d.Units {
		if u.Phase != phase || !contains(u.Why, why) {
			c.t.Errorf("unit %d is %s because %q; want %s because %q", u.Number, u.Phase, u.Why, phase, why)
		}
	}
	return d
}

func TestDescribeSaysWhereEachUnitIsAndWhy(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		if _, err := group.Describe(t.Context(), c.admin.Registry(), "g"); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("a group that does not exist gives %v; want ErrNotFound", err)
		}
		a := c.start("a", func(p *proc) { p.cfg.Static = true })
		pass(time.Second)
		d := c.described(api.Owned, "first owner")
		if len(d.Members) != 1 || d.Assignment.Reason != "a joined" || d.Units[3].Checkpoint == nil {
			t.Errorf("the description is %+v", d)
		}
		must(t, c.admin.Pause(t.Context(), "ops"))
		c.described(api.Paused, "paused by ops")
		a.kill()
		d = c.described(api.Awaiting, "a")
		if len(d.Members) != 0 || len(d.Awaited) != 1 {
			t.Errorf("with no member alive the description is %+v", d)
		}
		meta, err := c.admin.Registry().Get(t.Context(), c.admin.MetaKey())
		if err == nil {
			_, err = c.admin.Registry().Txn(t.Context(), c.admin.ForgetTxn("a", meta.Version))
		}
		must(t, err)
		c.described(api.Orphaned, "is gone")
		must(t, c.admin.Resume(t.Context(), "ops"))
		b := c.start("b")
		pass(time.Second)
		c.described(api.Owned, "a is gone")
		if err := b.stop(); err != nil {
			t.Errorf("b left with %v", err)
		}
		c.described(api.Unowned, "released by b")
		if err := c.admin.Delete(t.Context()); err != nil {
			t.Errorf("the group without members could not be deleted: %v", err)
		}
	})
}

// A deletion that was cut short leaves a mark and some entries; the next member finishes it and
// begins anew.
func TestMemberFinishesADeletionThatWasCutShort(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.start("a")
		pass(time.Second)
		must(t, a.stop())
		old := c.last(0)
		meta, err := c.admin.Meta(t.Context())
		must(t, err)
		meta.Deleting = true
		put := registry.Put{Key: c.admin.MetaKey(), Value: registry.Encode(meta)}
		_, err = c.admin.Registry().Txn(t.Context(), registry.Txn{Puts: []registry.Put{put}})
		must(t, err)
		b := c.start("b")
		pass(time.Second)
		c.shared(b)
		if first := c.of(0)[old.offset+1]; first.offset != 0 || first.epoch != 1 {
			t.Errorf("the new group began unit 0 with offset %d at epoch %d; want 0 and 1", first.offset, first.epoch)
		}
	})
}

// What somebody told who does not own the unit any more is not true any more.
func TestOnlyWhatALiveOwnerTellsIsBelieved(t *testing.T) {
	t.Parallel()
	d := &protocol.Deliveries{At: 7}
	for _, c := range []struct {
		phase api.Phase
		epoch int64
		want  *protocol.Deliveries
	}{
		{api.Owned, 5, d}, {api.Moving, 5, d}, {api.Paused, 5, d},
		{api.Owned, 4, nil}, {api.Orphaned, 5, nil}, {api.Awaiting, 5, nil}, {api.Unowned, 5, nil},
	} {
		s := group.Status{Phase: c.phase, Unit: protocol.Unit{Owner: protocol.Owner{Epoch: 5}, Checkpoint: &protocol.Checkpoint{Epoch: c.epoch, Deliveries: d}}}
		if got := s.Told(); got != c.want {
			t.Errorf("a unit that is %s, told of in epoch %d: %+v", c.phase, c.epoch, got)
		}
	}
	if got := (&group.Status{Phase: api.Owned}).Told(); got != nil {
		t.Errorf("without a checkpoint: %+v", got)
	}
}
