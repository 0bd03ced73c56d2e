package document

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/topic"
)

// ListedTopic is a topic among others.
type ListedTopic struct {
	Name       string `json:"name"`
	Partitions int    `json:"partitions"` // that new records go to
	Storages   int    `json:"storages"`   // that are not retired
	Created    string `json:"created"`
	Internal   string `json:"internal,omitempty"` // what alone writes to it, such as a subscription
	Damaged    string `json:"damaged,omitempty"`  // why it can't be read
}

// ListTopics is the list of topics.
func ListTopics(topics []ringfence.TopicInfo) []ListedTopic {
	list := make([]ListedTopic, len(topics))
	for i, t := range topics {
		if t.Damaged != "" {
			list[i] = ListedTopic{Name: t.Name, Damaged: t.Damaged}
			continue
		}
		list[i] = ListedTopic{Name: t.Name, Partitions: len(t.Storage[t.Produce].Partitions), Created: Time(t.Created), Internal: t.Internal}
		for _, s := range t.Storage {
			if !s.Retired {
				list[i].Storages++
			}
		}
	}
	return list
}

// Topic describes one topic.
type Topic struct {
	Name      string          `json:"name"`
	Life      string          `json:"life"` // the ID of this topic among those that had the name
	Created   string          `json:"created"`
	Router    topic.Router    `json:"router"`
	Hash      topic.Hash      `json:"hash"`
	Retention topic.Retention `json:"retention"`          // of each storage topic
	Altering  bool            `json:"altering,omitempty"` // not everywhere yet
	Produce   int             `json:"produce"`            // index of the storage topic that takes new records
	Kept      int64           `json:"kept"`               // records, at most
	Storage   []Storage       `json:"storage"`
	Groups    []TopicGroup    `json:"groups"`
	Moved     *topic.Moved    `json:"moved,omitempty"`    // to which log
	Internal  string          `json:"internal,omitempty"` // what it is a part of
}

// Storage describes a storage topic.
type Storage struct {
	Index      int         `json:"index"`
	Name       string      `json:"name"`
	K          int         `json:"k"`
	State      string      `json:"state"`          // retired, sealed, producing, sealing or open
	Ends       []int64     `json:"ends,omitempty"` // by partition: where it was sealed
	Partitions []Partition `json:"partitions"`
}

// Partition describes a partition of a storage topic.
type Partition struct {
	ringfence.PartitionInfo
	Kept  int64  `json:"kept"`
	State string `json:"state"` // producing, open or sealed
}

// TopicGroup is a group that consumes the topic.
type TopicGroup struct {
	Group   string `json:"group"`
	Members int    `json:"members"`
	State   string `json:"state"`
	// Storage says by storage topic how far it got.
	Storage []GroupStorage `json:"storage"`
}

// GroupStorage is how far a group got in one storage topic.
type GroupStorage struct {
	Index    int   `json:"index"`
	Lag      int64 `json:"lag"`
	Finished bool  `json:"finished"` // sealed, and all of it is processed
}

// DescribeTopic describes a topic with all that is known about it.
func DescribeTopic(ctx context.Context, rf *ringfence.Client, name string) (*Topic, error) {
	info, err := rf.DescribeTopic(ctx, name)
	if err != nil {
		return nil, err
	}
	t := &Topic{Name: info.Name, Life: info.Life, Moved: info.Moved, Internal: info.Internal, Created: Time(info.Created), Router: info.Router, Hash: info.Hash, Produce: info.Produce, Kept: Kept(info)}
	for _, s := range info.Storage {
		doc := Storage{Index: s.Index, Name: s.Name, K: s.K, Ends: s.Ends, State: storageState(&info, s.Index), Partitions: []Partition{}}
		if s.Retired {
			t.Storage = append(t.Storage, doc)
			continue
		}
		for _, p := range s.Partitions {
			doc.Partitions = append(doc.Partitions, Partition{p, p.Next - p.First, partitionState(s.Index == info.Produce, p.Sealed)})
		}
		t.Storage = append(t.Storage, doc)
	}
	t.Retention, t.Altering = info.Retention, info.Altering
	if t.Groups, err = GroupsOf(ctx, rf, name); err != nil {
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
func (g *TopicGroup) measure(ctx context.Context, rf *ringfence.Client, storages int) error {
	info, err := rf.DescribeGroup(ctx, g.Group)
	if err != nil && !errors.Is(err, ringfence.ErrNotFound) { // deleted since it was listed
		return err
	}
	g.Storage = make([]GroupStorage, storages)
	for i := range g.Storage {
		g.Storage[i] = GroupStorage{Index: i, Finished: err == nil}
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

// GroupsOf are the groups that consume a topic.
func GroupsOf(ctx context.Context, rf *ringfence.Client, name string) ([]TopicGroup, error) {
	all, err := rf.Groups(ctx)
	if err != nil {
		return nil, err
	}
	groups := []TopicGroup{}
	for _, g := range all {
		if g.Topic == name {
			groups = append(groups, TopicGroup{Group: g.Name, Members: len(g.Members), State: GroupState(g)})
		}
	}
	return groups, nil
}

// Kept is how many records a topic has, at most.
func Kept(t ringfence.TopicInfo) (n int64) {
	for _, s := range t.Storage {
		for _, p := range s.Partitions {
			n += p.Next - p.First
		}
	}
	return n
}
