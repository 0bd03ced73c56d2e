package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
)

// topSnapshot is one look at some groups.
type topSnapshot struct {
	At         string         `json:"at"`
	Groups     []topGroup     `json:"groups"`
	Partitions []topPartition `json:"partitions"`

	when time.Time
}

type topGroup struct {
	Group   string  `json:"group"`
	Topic   string  `json:"topic"`
	Members int     `json:"members"`
	State   string  `json:"state"`
	Paused  bool    `json:"paused"`
	Lag     int64   `json:"lag"`
	Oldest  int64   `json:"oldest_ms"`
	In      float64 `json:"produced_per_s"`
	Out     float64 `json:"processed_per_s"`
}

type topPartition struct {
	Group      string    `json:"group"`
	Storage    int       `json:"storage"`
	Partition  int       `json:"partition"`
	Owner      string    `json:"owner"`
	Alive      bool      `json:"alive"`
	Phase      api.Phase `json:"phase"`
	Target     string    `json:"target,omitempty"`
	Epoch      int64     `json:"epoch"`
	Checkpoint int64     `json:"checkpoint"` // -1: none
	End        int64     `json:"end"`
	Lag        int64     `json:"lag"`
	Oldest     int64     `json:"oldest_ms"`
	In         float64   `json:"produced_per_s"`
	Out        float64   `json:"processed_per_s"`
	Why        string    `json:"why"`

	done int64 // how many of End are processed
}

// look describes groups, all with none named, and their rates since the last look.
func look(ctx context.Context, rf *ringfence.Client, names []string, last *topSnapshot) (*topSnapshot, error) {
	all := len(names) == 0
	listed := map[string]api.Group{}
	if all {
		list, err := rf.Admin().ListGroups(ctx)
		if err != nil {
			return nil, err
		}
		for _, g := range list {
			names = append(names, g.Name)
			listed[g.Name] = g
		}
	}
	now := time.Now()
	s := &topSnapshot{when: now, At: string(api.TimeOf(now)), Groups: []topGroup{}, Partitions: []topPartition{}}
	for _, name := range names {
		if g := listed[name]; g.Damaged != "" {
			s.add(&g, last)
			continue
		}
		g, err := rf.Admin().DescribeGroup(ctx, name)
		if all && errors.Is(err, ringfence.ErrNotFound) {
			continue // deleted since it was listed
		}
		if all && unreadableDocument(err) {
			g = listed[name]
			g.Damaged, err = err.Error(), nil
		}
		if err != nil {
			return nil, err
		}
		s.add(&g, last)
	}
	return s, nil
}

func (s *topSnapshot) add(g *api.Group, last *topSnapshot) {
	total := topGroup{Group: g.Name, Topic: g.Topic, Members: len(g.Members), State: g.State, Paused: g.Paused, Lag: g.Lag, Oldest: g.OldestMS}
	for _, u := range g.Units {
		for _, p := range u.Positions {
			row := topPartition{
				Group: g.Name, Storage: p.Storage, Partition: p.Partition, Owner: u.Owner, Alive: u.Alive, Phase: u.Phase, Target: u.Target, Epoch: u.Epoch,
				Checkpoint: p.Checkpoint, End: p.Next, Lag: p.Lag, Oldest: p.OldestMS, Why: why(u), done: p.Next - p.Lag,
			}
			if old := last.find(&row); old != nil {
				seconds := s.when.Sub(last.when).Seconds()
				row.In = max(0, float64(row.End-old.End)/seconds)
				row.Out = max(0, float64(row.done-old.done)/seconds) // less than none: somebody sought back
			}
			total.In += row.In
			total.Out += row.Out
			s.Partitions = append(s.Partitions, row)
		}
	}
	s.Groups = append(s.Groups, total)
}

func (s *topSnapshot) find(row *topPartition) *topPartition {
	if s == nil {
		return nil
	}
	for i := range s.Partitions {
		if p := &s.Partitions[i]; p.Group == row.Group && p.Storage == row.Storage && p.Partition == row.Partition {
			return p
		}
	}
	return nil
}

func (s *topSnapshot) render(r *report, byLag bool, keys string) {
	r.line("%s  %s   %s", r.paint(bold, "ringfence top"), s.At, r.paint(faint, keys))
	r.line("")
	var rows [][]cell
	for _, g := range s.Groups {
		rows = append(rows, []cell{
			left(g.Group), left(g.Topic), warnIf(g.Members == 0, number(int64(g.Members))), rate(g.In), rate(g.Out),
			warnIf(g.Lag > 0 && g.Out == 0, number(g.Lag)), age(g.Oldest), warnIf(g.Paused, left(g.State)),
		})
	}
	r.table([]string{"GROUP", "TOPIC", "MEMBERS", "IN/S", "OUT/S", "LAG", "OLDEST", "STATE"}, rows)
	r.line("")
	parts := slices.Clone(s.Partitions)
	if byLag {
		slices.SortStableFunc(parts, func(a, b topPartition) int { return int(min(max(b.Lag-a.Lag, -1), 1)) })
	}
	rows = nil
	for _, p := range parts {
		name := fmt.Sprint(p.Partition)
		if p.Storage > 0 {
			name = fmt.Sprintf("%d/%d", p.Storage, p.Partition)
		}
		u := api.Unit{Owner: p.Owner, Alive: p.Alive, Target: p.Target, Phase: p.Phase}
		rows = append(rows, []cell{
			left(p.Group), right(name), ownerCell(u), number(p.Epoch), rate(p.In), rate(p.Out),
			warnIf(p.Lag > 0 && p.Out == 0, number(p.Lag)), age(p.Oldest), left(p.Why),
		})
	}
	r.table([]string{"GROUP", "PARTITION", "OWNER", "EPOCH", "IN/S", "OUT/S", "LAG", "OLDEST", "WHY"}, rows)
}

func rate(perSecond float64) cell {
	if perSecond == 0 {
		return right("-")
	}
	if perSecond < 10 {
		return right(fmt.Sprintf("%.1f", perSecond))
	}
	return number(int64(perSecond + 0.5))
}
