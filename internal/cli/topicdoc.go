package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/topic"
)

// listedTopic is a topic among others.
type listedTopic struct {
	Name       string `json:"name"`
	Partitions int    `json:"partitions"` // that new records go to
	Storages   int    `json:"storages"`
	Created    string `json:"created"`
}

func listedTopics(topics []ringfence.TopicInfo) []listedTopic {
	list := make([]listedTopic, len(topics))
	for i, t := range topics {
		list[i] = listedTopic{Name: t.Name, Partitions: len(t.Storage[t.Produce].Partitions), Storages: len(t.Storage), Created: timeText(t.Created)}
	}
	return list
}

// topicDoc describes one topic.
type topicDoc struct {
	Name      string          `json:"name"`
	Created   string          `json:"created"`
	Router    topic.Router    `json:"router"`
	Hash      topic.Hash      `json:"hash"`
	Retention retention       `json:"retention"` // of each storage topic
	Produce   int             `json:"produce"`   // index of the storage topic that takes new records
	Kept      int64           `json:"kept"`      // records, at most
	Storage   []storageDoc    `json:"storage"`
	Groups    []topicGroupDoc `json:"groups"`
}

type storageDoc struct {
	Index      int            `json:"index"`
	Name       string         `json:"name"`
	K          int            `json:"k"`
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
}

// describedTopic describes a topic with all that is known about it.
func describedTopic(ctx context.Context, rf *ringfence.Client, name string) (*topicDoc, error) {
	info, err := rf.DescribeTopic(ctx, name)
	if err != nil {
		return nil, err
	}
	t := &topicDoc{Name: info.Name, Created: timeText(info.Created), Router: info.Router, Hash: info.Hash, Produce: info.Produce, Kept: recordsOf(info)}
	for _, s := range info.Storage {
		doc := storageDoc{Index: s.Index, Name: s.Name, K: s.K}
		for _, p := range s.Partitions {
			doc.Partitions = append(doc.Partitions, partitionDoc{p, p.Next - p.First, partitionState(s.Index == info.Produce, p.Sealed)})
		}
		t.Storage = append(t.Storage, doc)
	}
	if t.Retention, err = retentionOf(ctx, rf, &info); err != nil {
		return nil, err
	}
	t.Groups, err = groupsOf(ctx, rf, name)
	return t, err
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

// retentionOf is what bounds the storage topic that takes new records.
func retentionOf(ctx context.Context, rf *ringfence.Client, t *ringfence.TopicInfo) (retention, error) {
	storages, err := rf.Log().Topics(ctx)
	if err != nil {
		return retention{}, err
	}
	for _, s := range storages {
		if s.Name == t.Storage[t.Produce].Name {
			return retention{Bytes: s.RetentionBytes, AgeMillis: s.RetentionAgeMillis, Force: s.RetentionForce}, nil
		}
	}
	return retention{}, nil
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
			groups = append(groups, topicGroupDoc{Group: g.Name, Members: len(g.Members), State: stateOf(g.Paused, len(g.Members))})
		}
	}
	return groups, nil
}

func (r retention) String() string {
	var bounds []string
	if r.Bytes > 0 {
		bounds = append(bounds, thousands(r.Bytes)+" bytes")
	}
	if r.AgeMillis > 0 {
		bounds = append(bounds, (time.Duration(r.AgeMillis) * time.Millisecond).String())
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
	r.line("router     %v, hash %v", t.Router, t.Hash)
	r.line("retention  %s", t.Retention)
	names := make([]string, len(t.Groups))
	for i, g := range t.Groups {
		names[i] = fmt.Sprintf("%s (%s)", g.Group, g.State)
		if g.Members > 0 {
			names[i] = fmt.Sprintf("%s (%s, %s)", g.Group, g.State, plural(int64(g.Members), "member"))
		}
	}
	r.line("groups     %s", dash(strings.Join(names, ", ")))
	r.line("")
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
