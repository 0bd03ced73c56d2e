package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// Describe describes a group of that layout with its members, its units and their lag; it needs no live member.
// current opens a topic by its name, as it is now.
func (l Layout) Describe(ctx context.Context, reg *registry.Registry, name string, current func(context.Context, string) (*topic.Topic, error)) (api.Group, error) {
	d, err := group.Describe(ctx, reg, name)
	if err == nil {
		err = l.fits(name, &d.Meta)
	}
	if err != nil {
		return api.Group{}, err
	}
	info := Summary(name, d)
	t, err := current(ctx, d.Meta.Topic)
	if err != nil {
		return api.Group{}, err
	}
	doc, now := t.Document(), time.Now().UnixMilli()
	layout := l.of(doc)
	for i := range layout {
		inputs := layout[i].Inputs
		if inputs[0].Storage < doc.Left() {
			continue
		}
		status := d.Unit(i)
		u, err := unitInfo(ctx, t, name, inputs, &status, info.Members, now)
		if err != nil && t.IsRetired(ctx, inputs[0].Storage, err) {
			return l.Describe(ctx, reg, name, current)
		}
		if err != nil {
			return api.Group{}, err
		}
		u.Paused = d.Control.Paused || slices.Contains(d.Control.PausedUnits, i)
		info.Units = append(info.Units, u)
		info.Lag += u.Lag
		info.Dropped += u.Dropped
		info.OldestMS = max(info.OldestMS, u.OldestMS)
		if d := u.Deliveries; d != nil && d.Failing != nil && (info.Failing == nil || d.Failing.Since < info.Failing.Since) {
			info.Failing = d.Failing
		}
	}
	tellWaiting(layout, info.Units)
	return info, nil
}

// tellWaiting marks the finished units, and those that wait for others. The units are those that are
// left of the topic.
func tellWaiting(l group.Layout, units []api.Unit) {
	first := len(l) - len(units)
	over := make([]bool, len(l)) // finished, and so are its predecessors
	for n := range l {
		if n < first {
			over[n] = true
			continue
		}
		u, open := &units[n-first], true
		for q := l[n].From; q < l[n].To; q += l[n].Step {
			open = open && over[q]
		}
		over[n] = open
		for i, in := range l[n].Inputs {
			over[n] = over[n] && (in.End == 0 || in.End > 0 && u.Positions[i].Checkpoint >= in.End)
		}
		switch {
		case over[n]:
			u.Phase, u.Why, u.Target = api.Finished, "finished: its storage topic is sealed and processed", ""
		case !open && (u.Phase == api.Owned || u.Phase == api.Unowned):
			u.Phase = api.Waiting
			u.Why = fmt.Sprintf("waits until storage topic %d is finished (%s)", l[n].Inputs[0].Storage-1, u.Why)
		}
	}
}

// Summary describes a group without its units.
func Summary(name string, d *group.Description) api.Group {
	info := api.Group{
		Name: name, Topic: d.Meta.Topic, Assignor: d.Meta.Assignor, Paused: d.Control.Paused, Awaited: d.Awaited,
		Assignment: api.Assignment{Version: d.Assignment.Version, By: d.Assignment.By, Reason: d.Assignment.Reason},
		State:      stateOf(d), Members: []api.Member{},
	}
	owned := make(map[string]int)
	for i := range d.Units {
		if alive(d.Units[i].Phase) {
			owned[d.Units[i].Owner.Member]++
		}
	}
	if c := &d.Control; c.Paused || len(c.PausedUnits) > 0 {
		info.PausedBy, info.PausedAt = c.By, api.Millis(c.At)
	}
	for _, m := range d.Members {
		info.Members = append(info.Members, api.Member{
			ID: m.ID, Incarnation: m.Incarnation, Host: m.Host, PID: m.PID, Weight: max(m.Weight, 1), Zone: m.Zone,
			Static: m.Static, Draining: m.Draining && !m.Unreadable, Joined: api.TimeOf(time.UnixMilli(m.Joined)), Units: owned[m.ID], Unreadable: m.Unreadable,
		})
	}
	return info
}

// stateDamaged is the state of a group that can't be read.
const stateDamaged = "damaged"

// stateOf returns the state of a group in a word or two.
func stateOf(d *group.Description) string {
	switch {
	case d.Control.Paused:
		return "paused"
	case len(d.Members) == 0:
		return "no members"
	}
	return "running"
}

// alive reports whether a unit in that phase has a live owner.
func alive(p api.Phase) bool { return p == api.Owned || p == api.Moving || p == api.Paused }

func unitInfo(ctx context.Context, t *topic.Topic, name string, inputs []group.UnitInput, s *group.Status, live []api.Member, now int64) (api.Unit, error) {
	info := api.Unit{
		Unit: s.Number, Phase: s.Phase, Owner: s.Owner.Member, Alive: alive(s.Phase), Epoch: s.Owner.Epoch,
		Why: s.Why,
	}
	if s.Target != s.Owner.Member && s.Phase != api.Unowned && slices.ContainsFunc(live, func(m api.Member) bool { return m.ID == s.Target }) {
		info.Target = s.Target
	}
	info.Deliveries = deliveries(s.Told())
	if info.Deliveries != nil && info.Deliveries.Failing != nil {
		info.Deliveries.Failing.Member = info.Owner
	}
	if c := s.Checkpoint; c != nil {
		info.StoredAt = api.Millis(c.Updated)
	}
	for _, in := range inputs {
		if err := measure(ctx, t, name, in, &s.Unit, &info, now); err != nil {
			return info, err
		}
	}
	return info, nil
}

// ahead says that a checkpoint has records that the partition lacks; "": it has none.
func ahead(ck *protocol.Position, b commitlog.Bounds) string {
	switch top := ck.Highest(); {
	case ck.Next > b.Next:
		return fmt.Sprintf("the checkpoint is at offset %d, and the partition ends at %d: the log went back, or another program wrote the checkpoint; nothing is read before a seek", ck.Next, b.Next)
	case top > b.Next:
		return fmt.Sprintf("the checkpoint names records up to offset %d as tried above %d, and the partition ends at %d: the log went back, or another program wrote the checkpoint; all from %d on are handled again, and a seek goes further back",
			top-1, ck.Next, b.Next, ck.Next)
	}
	return ""
}

// lost says that a partition has grown past a checkpoint without the records that it knows; "": it has not.
func lost(ctx context.Context, st *commitlog.Topic, partition int, ck *protocol.Position) string {
	newest, next := ck.Top, ck.Highest()
	if !newest.Known() || next == ck.Next {
		newest, next = ck.Last, ck.Next
	}
	if !newest.Known() {
		return ""
	}
	if gone, err := st.Lost(ctx, partition, newest[0], newest[1], next); !gone || err != nil {
		return ""
	}
	return fmt.Sprintf("the partition lacks the record at offset %d that was processed: the log went back and has grown since, or another program wrote the checkpoint; a seek says where to go on", newest[0])
}

// dropped counts the records between a checkpoint and the first record that is kept which the group had not finished.
// What lies below its hold it had: then the checkpoint went back, and not the log.
func dropped(ctx context.Context, st *commitlog.Topic, name string, partition int, ck *protocol.Position, first int64) (int64, error) {
	from := ck.Next
	if from >= first {
		return 0, nil
	}
	holds, err := st.Holds(ctx)
	if err != nil && !errors.Is(err, fault.Corrupt) {
		return 0, err
	}
	if held := holds[name]; partition < len(held) {
		from = max(from, held[partition])
	}
	n := max(0, first-from)
	for _, r := range ck.Done {
		n -= max(0, min(r[1], first)-max(r[0], from))
	}
	return n, nil
}

// measure adds the position and the lag of one partition that the unit reads.
func measure(ctx context.Context, t *topic.Topic, name string, in group.UnitInput, u *protocol.Unit, info *api.Unit, now int64) error {
	storage, partition := in.Storage, in.Partition
	st, err := t.Storage(storage)
	if err != nil {
		return err
	}
	b, err := st.Bounds(ctx, partition)
	if err != nil {
		return err
	}
	p := api.Position{Storage: storage, Partition: partition, Checkpoint: -1, First: b.First, Next: b.Next}
	from := b.First
	if ck := u.Checkpoint.Position(storage, partition); ck != nil {
		p.Checkpoint = ck.Next
		from = max(from, ck.Next)
		if p.Damaged = ahead(ck, b); p.Damaged == "" {
			p.Damaged = lost(ctx, st, partition, ck)
		}
		if p.Damaged == "" { // else they are not believed
			for _, r := range ck.Done {
				p.Done += r[1] - r[0]
			}
		}
		if p.Dropped, err = dropped(ctx, st, name, partition, ck, b.First); err != nil {
			return err
		}
	}
	if err := u.Damage(); err != nil {
		p.Damaged = err.Error() + "; nothing is read before a seek"
	}
	p.Lag = max(0, b.Next-from-p.Done)
	if from < b.Next {
		recs, _, err := st.Read(ctx, partition, from, nil, &commitlog.ReadOptions{MaxBytes: 1})
		switch {
		case errors.Is(err, fault.Corrupt):
			p.Damaged = err.Error() // reported here, so as not to hide the rest
		case err != nil && !errors.Is(err, fault.OutOfRange):
			return err
		case len(recs) > 0:
			p.OldestMS = max(0, now-recs[0].Timestamp)
		}
	}
	info.Positions = append(info.Positions, p)
	info.Lag += p.Lag
	info.Dropped += p.Dropped
	info.OldestMS = max(info.OldestMS, p.OldestMS)
	return nil
}

// deliveries converts the stored stats of a shard's owner.
func deliveries(d *protocol.Deliveries) *api.Deliveries {
	if d == nil {
		return nil
	}
	out := &api.Deliveries{At: api.Millis(d.At), Backoff: d.Eased, Rate: d.Rate, Running: d.Running, Endpoint: (*api.EndpointPart)(d.Endpoint)}
	if f := d.Failing; f != nil {
		out.Failing = &api.FailingRecord{
			Storage: f.Storage, Partition: f.Partition, Offset: f.Offset, Key: f.Key, Attempts: f.Attempts, Since: api.Millis(f.Since), Due: api.Millis(f.Due), Why: f.Why,
		}
	}
	if h := d.HeldBack; h != nil {
		out.HeldBack = &api.HeldBack{Since: api.Millis(h.Since), Why: h.Why, Next: api.Millis(h.Next)}
	}
	return out
}

// Deliveries returns the delivery stats that the owners of a group's units have stored.
func (c *Groups) Deliveries(ctx context.Context, name string) ([]*api.Deliveries, error) {
	d, err := group.Describe(ctx, c.Registry, name)
	if err != nil {
		return nil, err
	}
	all := make([]*api.Deliveries, len(d.Units))
	for i := range d.Units {
		all[i] = deliveries(d.Units[i].Told())
	}
	return all, nil
}
