package ringfence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/commitlog"
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
	Units    []UnitInfo   `json:"units,omitempty"` // DescribeGroup only
	Lag      int64        `json:"lag"`             // records not processed yet, over all units
	// OldestMillis is the age in milliseconds of the oldest record that is not processed; 0: none.
	OldestMillis int64 `json:"oldest_ms"`
	// Assignment is why the units are where they are.
	Assignment AssignmentInfo `json:"assignment"`
}

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
}

// AssignmentInfo says who computed the current assignment, and why.
type AssignmentInfo struct {
	Version int64  `json:"version"`
	By      string `json:"by"`
	Reason  string `json:"reason"`
}

// UnitInfo describes a unit of a group: who owns it at which epoch, and how far it got.
type UnitInfo struct {
	Unit      int            `json:"unit"`
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
}

// DescribeGroup describes a group with its members, its units and their lag; it needs no member
// to be alive.
func (c *Client) DescribeGroup(ctx context.Context, name string) (GroupInfo, error) {
	g, err := c.reg.Group(name)
	if err != nil {
		return GroupInfo{}, err
	}
	st, err := g.Load(ctx, true)
	if err != nil {
		return GroupInfo{}, err
	}
	if st.Meta == nil {
		return GroupInfo{}, fmt.Errorf("group %q: %w (ringfence group list shows what there is)", name, ErrNotFound)
	}
	info := groupInfo(name, st)
	t, err := c.open(ctx, st.Meta.Topic)
	if err != nil {
		return GroupInfo{}, err
	}
	now := time.Now().UnixMilli()
	for i := range info.Units {
		if err := measure(ctx, t, &st.Units[i], &info.Units[i], now); err != nil {
			return GroupInfo{}, err
		}
		info.Lag += info.Units[i].Lag
		info.OldestMillis = max(info.OldestMillis, info.Units[i].OldestMillis)
	}
	return info, nil
}

func groupInfo(name string, st *registry.State) GroupInfo {
	info := GroupInfo{Name: name, Topic: st.Meta.Topic, Assignor: st.Meta.Assignor, Paused: st.Control.Paused}
	owned := make(map[string]int)
	live := make(map[string]string, len(st.Members))
	for _, m := range st.Members {
		live[m.ID] = m.Incarnation
	}
	paused := make(map[int]bool, len(st.Control.PausedUnits))
	for _, u := range st.Control.PausedUnits {
		paused[u] = true
	}
	for i, u := range st.Units {
		ui := UnitInfo{Unit: i, Owner: u.Owner.Member, Epoch: u.Owner.Epoch, Why: u.Owner.Reason, Paused: st.Control.Paused || paused[i]}
		ui.Alive = u.Owner.Member != "" && live[u.Owner.Member] == u.Owner.Incarnation
		if ui.Alive {
			owned[u.Owner.Member]++
		}
		if a := st.Assignment; a != nil && i < len(a.Targets) && a.Targets[i] != u.Owner.Member {
			ui.Target = a.Targets[i]
		}
		info.Units = append(info.Units, ui)
	}
	for _, m := range st.Members {
		info.Members = append(info.Members, MemberInfo{
			ID: m.ID, Incarnation: m.Incarnation, Host: m.Host, PID: m.PID, Weight: max(m.Weight, 1), Zone: m.Zone,
			Static: m.Static, Draining: m.Draining, Joined: m.Joined, Units: owned[m.ID],
		})
	}
	if a := st.Assignment; a != nil {
		info.Assignment = AssignmentInfo{Version: a.Version, By: a.By, Reason: a.Reason}
	}
	return info
}

// measure fills in the positions and the lag of one unit.
func measure(ctx context.Context, t *topic.Topic, u *registry.Unit, info *UnitInfo, now int64) error {
	for storage, s := range t.Document().Storage {
		if u.Number >= s.Partitions {
			continue
		}
		st, err := t.Storage(storage)
		if err != nil {
			return err
		}
		b, err := st.Bounds(ctx, u.Number)
		if err != nil {
			return err
		}
		p := PositionInfo{Storage: storage, Partition: u.Number, Checkpoint: -1, First: b.First, Next: b.Next}
		from := b.First
		if ck := position(u.Checkpoint, storage, u.Number); ck != nil {
			p.Checkpoint = ck.Next
			from = max(from, ck.Next)
			for _, r := range ck.Done {
				p.Done += r[1] - r[0]
			}
		}
		p.Lag = max(0, b.Next-from-p.Done)
		if from < b.Next {
			recs, _, err := st.Read(ctx, u.Number, from, nil, &commitlog.ReadOptions{MaxBytes: 1})
			if err != nil && !errors.Is(err, ErrOutOfRange) {
				return err
			}
			if len(recs) > 0 {
				p.OldestMillis = max(0, now-recs[0].Timestamp)
			}
		}
		info.Positions = append(info.Positions, p)
		info.Lag += p.Lag
		info.OldestMillis = max(info.OldestMillis, p.OldestMillis)
	}
	return nil
}

func position(c *registry.Checkpoint, storage, partition int) *registry.Position {
	if c == nil {
		return nil
	}
	for i := range c.Positions {
		if p := &c.Positions[i]; p.Storage == storage && p.Partition == partition {
			return p
		}
	}
	return nil
}
