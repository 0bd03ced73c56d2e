package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// GroupInfo describes a consumer group.
type GroupInfo struct {
	Name     string       `json:"name"`
	Topic    string       `json:"topic"`
	Assignor string       `json:"assignor"`
	Paused   bool         `json:"paused"`
	Members  []MemberInfo `json:"members"`
	Awaited  []string     `json:"awaited,omitempty"` // static members that are away and may come back
	Units    []UnitInfo   `json:"units,omitempty"`   // Describe only
	Lag      int64        `json:"lag"`               // records not processed yet, over all units
	// Later are those of them that no unit reads yet: of a subscription, in storage topics that come after.
	Later int64 `json:"later,omitempty"`
	// OldestMillis is the age in milliseconds of the oldest record that is not processed; 0: none.
	OldestMillis int64 `json:"oldest_ms"`
	// Damaged says why the group can't be read; "": it can.
	Damaged string `json:"damaged,omitempty"`
	// Assignment is why the units are where they are.
	Assignment AssignmentInfo `json:"assignment"`

	newer bool // see Newer
}

// Newer says that Damaged is for a newer version's sake: the group is sound, and deleting it is no remedy.
func (g *GroupInfo) Newer() bool { return g.newer }

// MemberInfo describes a live member.
type MemberInfo struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation"`
	Host        string `json:"host,omitempty"`
	PID         int    `json:"pid,omitempty"`
	Weight      int    `json:"weight"`
	Zone        string `json:"zone,omitempty"`
	Static      bool   `json:"static,omitempty"`
	Draining    bool   `json:"draining,omitempty"`
	Joined      int64  `json:"joined"` // Unix ms
	Units       int    `json:"units"`  // how many it owns
	// Unreadable: a newer version wrote its entry, or somebody else. It keeps what it owns while its session lives.
	Unreadable bool `json:"unreadable,omitempty"`
}

// AssignmentInfo says who computed the current assignment, and why.
type AssignmentInfo struct {
	Version int64  `json:"version"`
	By      string `json:"by"`
	Reason  string `json:"reason"`
}

// UnitInfo describes a unit of a group: who owns it at which epoch, and how far it got. Units are the
// partitions of all storage topics of the topic, numbered through; those of retired ones are not shown.
type UnitInfo struct {
	Unit      int            `json:"unit"`
	Phase     group.Phase    `json:"phase"` // what is going on with it
	Owner     string         `json:"owner"` // "": nobody
	Alive     bool           `json:"alive"` // the owner is a live member
	Epoch     int64          `json:"epoch"`
	Target    string         `json:"target,omitempty"` // who should own it, when that is somebody else
	Why       string         `json:"why"`              // why the owner has it
	Positions []PositionInfo `json:"positions"`
	Lag       int64          `json:"lag"`
	// OldestMillis is the age in milliseconds of the oldest record that is not processed; 0: none.
	OldestMillis int64 `json:"oldest_ms"`
	Paused       bool  `json:"paused,omitempty"`
	// Deliveries is what the owner tells of a subscription's shard; nil: nothing, or nobody owns it.
	Deliveries *protocol.Deliveries `json:"deliveries,omitempty"`
}

// PositionInfo is how far a unit got in one partition.
type PositionInfo struct {
	Storage    int   `json:"storage"`
	Partition  int   `json:"partition"`
	Checkpoint int64 `json:"checkpoint"` // next offset to process; -1: none was ever written
	Done       int64 `json:"done"`       // records finished above it
	First      int64 `json:"first"`
	Next       int64 `json:"next"` // end of the partition
	Lag        int64 `json:"lag"`
	// OldestMillis is the age in milliseconds of the record at the checkpoint; 0: none.
	OldestMillis int64 `json:"oldest_ms"`
	// Damaged says what is wrong with the checkpoint, or the record there, and where to seek; "": nothing.
	Damaged string `json:"damaged,omitempty"`
}

// Describe describes a group with its members, its units and their lag; it needs no member to be
// alive. current opens a topic by its name, as it is now.
func Describe(ctx context.Context, reg *registry.Registry, name string, current func(context.Context, string) (*topic.Topic, error)) (GroupInfo, error) {
	return Layout{}.Describe(ctx, reg, name, current)
}

// Describe describes a group with that layout.
func (l Layout) Describe(ctx context.Context, reg *registry.Registry, name string, current func(context.Context, string) (*topic.Topic, error)) (GroupInfo, error) {
	d, err := group.Describe(ctx, reg, name)
	if err == nil {
		err = l.fits(name, &d.Meta)
	}
	if err != nil {
		return GroupInfo{}, err
	}
	info := Summary(name, d)
	t, err := current(ctx, d.Meta.Topic)
	if err != nil {
		return GroupInfo{}, err
	}
	doc, now := t.Document(), time.Now().UnixMilli()
	layout := l.of(doc)
	for i := range layout {
		inputs := layout[i].Inputs
		if inputs[0].Storage < doc.Left() {
			continue
		}
		status := d.Unit(i)
		u, err := unitInfo(ctx, t, inputs, &status, now)
		if err != nil && t.IsRetired(ctx, inputs[0].Storage, err) {
			return l.Describe(ctx, reg, name, current)
		}
		if err != nil {
			return GroupInfo{}, err
		}
		info.Units = append(info.Units, u)
		info.Lag += u.Lag
		info.OldestMillis = max(info.OldestMillis, u.OldestMillis)
	}
	tellWaiting(layout, info.Units)
	return info, nil
}

// tellWaiting marks the units that are finished, and those that wait for others to be. The units are
// those that are left of the topic.
func tellWaiting(l group.Layout, units []UnitInfo) {
	first := len(l) - len(units)
	over := make([]bool, len(l)) // finished, and so is what comes before
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
			u.Phase, u.Why, u.Target = group.Finished, "finished: its storage topic is sealed and processed", ""
		case !open && (u.Phase == group.Owned || u.Phase == group.Unowned):
			u.Phase = group.Waiting
			u.Why = fmt.Sprintf("waits until storage topic %d is finished (%s)", l[n].Inputs[0].Storage-1, u.Why)
		}
	}
}

// Summary describes a group without its units.
func Summary(name string, d *group.Description) GroupInfo {
	info := GroupInfo{
		Name: name, Topic: d.Meta.Topic, Assignor: d.Meta.Assignor, Paused: d.Control.Paused, Awaited: d.Awaited,
		Assignment: AssignmentInfo{Version: d.Assignment.Version, By: d.Assignment.By, Reason: d.Assignment.Reason},
	}
	owned := make(map[string]int)
	for i := range d.Units {
		if alive(d.Units[i].Phase) {
			owned[d.Units[i].Owner.Member]++
		}
	}
	for _, m := range d.Members {
		info.Members = append(info.Members, MemberInfo{
			ID: m.ID, Incarnation: m.Incarnation, Host: m.Host, PID: m.PID, Weight: max(m.Weight, 1), Zone: m.Zone,
			Static: m.Static, Draining: m.Draining && !m.Unreadable, Joined: m.Joined, Units: owned[m.ID], Unreadable: m.Unreadable,
		})
	}
	return info
}

// alive says whether a unit in that phase has an owner that lives.
func alive(p group.Phase) bool { return p == group.Owned || p == group.Moving || p == group.Paused }

func unitInfo(ctx context.Context, t *topic.Topic, inputs []group.UnitInput, s *group.Status, now int64) (UnitInfo, error) {
	info := UnitInfo{
		Unit: s.Number, Phase: s.Phase, Owner: s.Owner.Member, Alive: alive(s.Phase), Epoch: s.Owner.Epoch,
		Why: s.Why, Paused: s.Phase == group.Paused,
	}
	if s.Target != s.Owner.Member && s.Phase != group.Unowned {
		info.Target = s.Target
	}
	info.Deliveries = s.Told()
	for _, in := range inputs {
		if err := measure(ctx, t, in.Storage, in.Partition, &s.Unit, &info, now); err != nil {
			return info, err
		}
	}
	return info, nil
}

// ahead says that a checkpoint knows of records that the partition has not got; "": it does not.
func ahead(ck *protocol.Position, b commitlog.Bounds) string {
	switch top := ck.Highest(); {
	case ck.Next > b.Next:
		return fmt.Sprintf("the checkpoint is at offset %d, and the partition ends at %d: the log went back, or somebody else wrote the checkpoint; nothing is read before a seek", ck.Next, b.Next)
	case top > b.Next:
		return fmt.Sprintf("the checkpoint names records up to offset %d as tried above %d, and the partition ends at %d: the log went back, or somebody else wrote the checkpoint; all from %d on are handled again, and a seek goes further back",
			top-1, ck.Next, b.Next, ck.Next)
	}
	return ""
}

// measure adds the position and the lag of one partition that the unit reads.
func measure(ctx context.Context, t *topic.Topic, storage, partition int, u *protocol.Unit, info *UnitInfo, now int64) error {
	st, err := t.Storage(storage)
	if err != nil {
		return err
	}
	b, err := st.Bounds(ctx, partition)
	if err != nil {
		return err
	}
	p := PositionInfo{Storage: storage, Partition: partition, Checkpoint: -1, First: b.First, Next: b.Next}
	from := b.First
	if ck := u.Checkpoint.Position(storage, partition); ck != nil {
		p.Checkpoint = ck.Next
		from = max(from, ck.Next)
		if p.Damaged = ahead(ck, b); p.Damaged == "" { // else nobody believes them
			for _, r := range ck.Done {
				p.Done += r[1] - r[0]
			}
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
			p.Damaged = err.Error() // to be told, not to hide all the rest
		case err != nil && !errors.Is(err, fault.OutOfRange):
			return err
		case len(recs) > 0:
			p.OldestMillis = max(0, now-recs[0].Timestamp)
		}
	}
	info.Positions = append(info.Positions, p)
	info.Lag += p.Lag
	info.OldestMillis = max(info.OldestMillis, p.OldestMillis)
	return nil
}
