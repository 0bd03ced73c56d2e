package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/topic"
)

// listedTopic is a topic among others.
type listedTopic struct {
	Name       string `json:"name"`
	Partitions int    `json:"partitions"` // that new records go to
	Storages   int    `json:"storages"`   // that are not retired
	Created    string `json:"created"`
	Damaged    string `json:"damaged,omitempty"` // why it can't be read
}

func listedTopics(topics []ringfence.TopicInfo) []listedTopic {
	list := make([]listedTopic, len(topics))
	for i, t := range topics {
		if t.Damaged != "" {
			list[i] = listedTopic{Name: t.Name, Damaged: t.Damaged}
			continue
		}
		list[i] = listedTopic{Name: t.Name, Partitions: len(t.Storage[t.Produce].Partitions), Created: timeText(t.Created)}
		for _, s := range t.Storage {
			if !s.Retired {
				list[i].Storages++
			}
		}
	}
	return list
}

// topicDoc describes one topic.
type topicDoc struct {
	Name      string          `json:"name"`
	Life      string          `json:"life"` // the ID of this topic among those that had the name
	Created   string          `json:"created"`
	Router    topic.Router    `json:"router"`
	Hash      topic.Hash      `json:"hash"`
	Retention retention       `json:"retention"`          // of each storage topic
	Altering  bool            `json:"altering,omitempty"` // not everywhere yet
	Produce   int             `json:"produce"`            // index of the storage topic that takes new records
	Kept      int64           `json:"kept"`               // records, at most
	Storage   []storageDoc    `json:"storage"`
	Groups    []topicGroupDoc `json:"groups"`
	Moved     *topic.Moved    `json:"moved,omitempty"` // to which log
}

type storageDoc struct {
	Index      int            `json:"index"`
	Name       string         `json:"name"`
	K          int            `json:"k"`
	State      string         `json:"state"`          // retired, sealed, producing, sealing or open
	Ends       []int64        `json:"ends,omitempty"` // by partition: where it was sealed
	Partitions []partitionDoc `json:"partitions"`
}

type partitionDoc struct {
	ringfence.PartitionInfo
	Kept  int64  `json:"kept"`
	State string `json:"state"` // producing, open or sealed
}

// topicGroupDoc is a group that consumes the topic.
type topicGroupDoc struct {
	Group   string `json:"group"`
	Members int    `json:"members"`
	State   string `json:"state"`
	// Storage says by storage topic how far it got.
	Storage []groupStorageDoc `json:"storage"`
}

// groupStorageDoc is how far a group got in one storage topic.
type groupStorageDoc struct {
	Index    int   `json:"index"`
	Lag      int64 `json:"lag"`
	Finished bool  `json:"finished"` // sealed, and all of it is processed
}

// describedTopic describes a topic with all that is known about it.
func describedTopic(ctx context.Context, rf *ringfence.Client, name string) (*topicDoc, error) {
	info, err := rf.DescribeTopic(ctx, name)
	if err != nil {
		return nil, err
	}
	t := &topicDoc{Name: info.Name, Life: info.Life, Moved: info.Moved, Created: timeText(info.Created), Router: info.Router, Hash: info.Hash, Produce: info.Produce, Kept: recordsOf(info)}
	for _, s := range info.Storage {
		doc := storageDoc{Index: s.Index, Name: s.Name, K: s.K, Ends: s.Ends, State: storageState(&info, s.Index), Partitions: []partitionDoc{}}
		if s.Retired {
			t.Storage = append(t.Storage, doc)
			continue
		}
		for _, p := range s.Partitions {
			doc.Partitions = append(doc.Partitions, partitionDoc{p, p.Next - p.First, partitionState(s.Index == info.Produce, p.Sealed)})
		}
		t.Storage = append(t.Storage, doc)
	}
	t.Retention, t.Altering = retention(info.Retention), info.Altering
	if t.Groups, err = groupsOf(ctx, rf, name); err != nil {
		return nil, err
	}
	for i := range t.Groups {
		if err := t.Groups[i].measure(ctx, rf, len(t.Storage)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// measure finds how far a group got in each storage topic.
func (g *topicGroupDoc) measure(ctx context.Context, rf *ringfence.Client, storages int) error {
	info, err := rf.DescribeGroup(ctx, g.Group)
	if err != nil && !errors.Is(err, ringfence.ErrNotFound) { // deleted since it was listed
		return err
	}
	g.Storage = make([]groupStorageDoc, storages)
	for i := range g.Storage {
		g.Storage[i] = groupStorageDoc{Index: i, Finished: err == nil}
	}
	for _, u := range info.Units {
		for _, p := range u.Positions {
			if p.Storage < storages {
				s := &g.Storage[p.Storage]
				s.Lag += p.Lag
				s.Finished = s.Finished && u.Phase == group.Finished
			}
		}
	}
	return nil
}

func storageState(t *ringfence.TopicInfo, index int) string {
	switch {
	case t.Storage[index].Retired:
		return "retired"
	case index < t.Produce:
		return "sealed"
	case index > t.Produce:
		return "open"
	case t.Switching:
		return "sealing"
	}
	return "producing"
}

func partitionState(producing, sealed bool) string {
	switch {
	case sealed:
		return "sealed"
	case producing:
		return "producing"
	}
	return "open"
}

// groupsOf are the groups that consume a topic.
func groupsOf(ctx context.Context, rf *ringfence.Client, name string) ([]topicGroupDoc, error) {
	all, err := rf.Groups(ctx)
	if err != nil {
		return nil, err
	}
	groups := []topicGroupDoc{}
	for _, g := range all {
		if g.Topic == name {
			groups = append(groups, topicGroupDoc{Group: g.Name, Members: len(g.Members), State: stateOf(g)})
		}
	}
	return groups, nil
}

func (r retention) String() string {
	var bounds []string
	if r.Bytes > 0 {
		bounds = append(bounds, thousands(r.Bytes)+" bytes")
	}
	if r.AgeMS > 0 {
		bounds = append(bounds, (time.Duration(r.AgeMS) * time.Millisecond).String())
	}
	if len(bounds) == 0 {
		return "all is kept"
	}
	text := "about " + strings.Join(bounds, ", or ")
	if r.Force {
		return text + ", processed or not"
	}
	return text + ", and what a group has not processed"
}

func (t *topicDoc) render(r *report) {
	r.line("topic      %s", r.paint(bold, t.Name))
	r.line("created    %s", t.Created)
	switch {
	case t.Moved == nil:
	case t.Moved.Done:
		r.line("moved      to %s; nothing is produced or consumed here any more", t.Moved.To)
	default:
		r.line("moving     to %s: run the cut-over again, or take it back with --abandon", t.Moved.To)
	}
	r.line("router     %v, hash %v", t.Router, t.Hash)
	r.line("retention  %s", t.Retention)
	if t.Altering {
		r.line("           not everywhere yet: set it again to finish that")
	}
	names := make([]string, len(t.Groups))
	for i, g := range t.Groups {
		names[i] = fmt.Sprintf("%s (%s)", g.Group, g.State)
		if g.Members > 0 {
			names[i] = fmt.Sprintf("%s (%s, %s)", g.Group, g.State, plural(int64(g.Members), "member"))
		}
	}
	r.line("groups     %s", dash(strings.Join(names, ", ")))
	r.line("")
	if len(t.Storage) > 1 {
		t.renderStorages(r)
	}
	var rows [][]cell
	for _, s := range t.Storage {
		for _, p := range s.Partitions {
			rows = append(rows, []cell{
				left(s.Name), number(int64(s.Index)), number(int64(p.Partition)), number(p.First), number(p.Next), number(p.Kept), left(p.State),
			})
		}
	}
	r.table([]string{"STORAGE", "INDEX", "PARTITION", "FIRST", "NEXT", "KEPT", "STATE"}, rows)
	r.line("%s kept at most", plural(t.Kept, "record"))
}

// renderStorages shows the storage topics of a topic that grew, and who has finished which.
func (t *topicDoc) renderStorages(r *report) {
	var rows [][]cell
	for _, s := range t.Storage {
		var over, behind []string
		if s.State == "retired" {
			rows = append(rows, []cell{number(int64(s.Index)), right("-"), right("-"), left(s.State), left("-"), left("-")})
			continue
		}
		for _, g := range t.Groups {
			if at := g.Storage[s.Index]; at.Finished {
				over = append(over, g.Group)
			} else if at.Lag > 0 {
				behind = append(behind, fmt.Sprintf("%s (%s)", g.Group, thousands(at.Lag)))
			}
		}
		rows = append(rows, []cell{
			number(int64(s.Index)), number(int64(len(s.Partitions))), number(int64(s.K)), left(s.State),
			left(dash(strings.Join(over, ", "))), left(dash(strings.Join(behind, ", "))),
		})
	}
	r.table([]string{"INDEX", "PARTITIONS", "K", "STATE", "FINISHED BY", "LAG OF"}, rows)
	r.line("")
}
