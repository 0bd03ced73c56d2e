package core

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// A member may hear of a growth after the group did. It makes no room for units that no topic can have
// got meanwhile.
func TestAGroupFarAheadOfItsTopicIsRefused(t *testing.T) {
	t.Parallel()
	for units, refused := range map[int]bool{2: false, 3: false, 2 + maxAhead: false, 3 + maxAhead: true, protocol.MaxUnits: true} {
		w := newWorld(t)
		s := New(Config{Group: w.group, Topic: "t", Units: 2, Layout: two(-1, -1), Assignor: w.start("a").s.cfg.Assignor, SessionTTL: time.Second})
		err := s.checkMeta(&protocol.Meta{Format: 1, Topic: "t", Units: units, Assignor: s.cfg.Assignor.Name()})
		if refused != errors.Is(err, fault.Corrupt) || err != nil && !strings.Contains(err.Error(), w.group.MetaKey()) {
			t.Errorf("%d units: %v; refused should be %v", units, err, refused)
		}
	}
}

// Nobody would work on the units of the newest storage topic again, and their records would be passed over in
// silence: that is damage, which people are told. A member that has not heard of a growth can't know.
func TestAGroupThatIsFinishedWithWhatTakesRecordsIsRefused(t *testing.T) {
	t.Parallel()
	of := func(storages ...int) (l Layout) {
		for i, s := range storages {
			l = append(l, LayoutUnit{Inputs: []UnitInput{{Storage: s, Partition: i, End: -1}}})
		}
		return l
	}
	for _, c := range []struct {
		layout       Layout
		units, first int
		refused      bool
	}{
		{of(0, 0), 2, 0, false},
		{of(0, 0), 2, 1, true},
		{of(0, 0), 2, 2, true},
		{of(0, 0), 4, 2, false},
		{of(0, 0, 1, 1), 4, 2, false},
		{of(0, 0, 1, 1), 4, 3, true},
		{of(0, 0, 1, 1), 2, 2, false},
	} {
		w := newWorld(t)
		s := New(Config{Group: w.group, Topic: "t", Layout: c.layout, Assignor: w.start("a").s.cfg.Assignor, SessionTTL: time.Second})
		meta := &protocol.Meta{Format: 1, Topic: "t", Units: c.units, First: c.first, Assignor: s.cfg.Assignor.Name()}
		err := s.checkMeta(meta)
		if c.refused != errors.Is(err, fault.Corrupt) || err != nil && (!strings.Contains(err.Error(), w.group.MetaKey()) || !strings.Contains(err.Error(), "group seek")) {
			t.Errorf("%d units from %d on, of %d in the layout: %v; refused should be %v", c.units, c.first, len(c.layout), err, c.refused)
		}
		s.cfg.Closed = true
		if err := s.checkMeta(meta); err != nil {
			t.Errorf("%d units from %d on of a shard set, all of which may be retired: %v", c.units, c.first, err)
		}
	}
}

// A group is finished with all of the newest storage topic that a member knows of when who retired it knows of
// a newer one: the member looks before it calls that damage.
func TestAMemberLooksAtWhatItConsumesBeforeItCallsAGroupDamaged(t *testing.T) {
	t.Parallel()
	of := func(storages int) (l Layout) {
		for s := range storages {
			l = append(l, LayoutUnit{Inputs: []UnitInput{{Storage: s, End: -1}}})
		}
		return l
	}
	for _, known := range []int{2, 3} {
		w := newWorld(t)
		a := w.start("a", func(c *Config) { c.Units, c.Layout = 2, of(2) })
		a.consumes = of(known)
		w.pass(time.Second)
		meta := *w.load().Meta
		meta.First = 2
		key := w.group.MetaKey()
		w.store.one(&registry.Txn{
			Checks: []registry.Check{{Key: key, Version: w.store.entries[key].Version}}, Puts: []registry.Put{{Key: key, Value: registry.Encode(meta)}},
		})
		w.pass(time.Minute)
		switch damaged := known == 2; {
		case damaged && (a.exit == nil || !errors.Is(a.exit.Err, fault.Corrupt)):
			t.Errorf("the newest storage topic is passed, and the member has ended with %v", a.exit)
		case !damaged && a.exit != nil:
			t.Errorf("a storage topic that the member had not heard of is there, and it has ended: %v", a.exit.Err)
		case !damaged && w.load().Units[2].Owner.Member != "a":
			t.Errorf("nobody owns what is there now: %+v", w.load().Units)
		}
	}
}

// What a member has not heard of it can't work on: it claims nothing of it, however many units somebody writes.
func TestNobodyClaimsUnitsThatHeHasNotHeardOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", func(c *Config) { c.Units, c.Layout = 2, two(-1, -1) })
	w.pass(time.Second)
	meta := *w.load().Meta
	meta.Units = 500
	key := w.group.MetaKey()
	w.store.one(&registry.Txn{
		Checks: []registry.Check{{Key: key, Version: w.store.entries[key].Version}}, Puts: []registry.Put{{Key: key, Value: registry.Encode(meta)}},
	})
	w.pass(time.Minute)
	if a.exit != nil || len(a.running) == 0 {
		t.Errorf("a runs %d units, and has ended: %v", len(a.running), a.exit)
	}
	for _, u := range w.load().Units[2:] {
		if u.Owner.Epoch != 0 {
			t.Fatalf("unit %d was claimed: %+v", u.Number, u.Owner)
		}
	}
}
