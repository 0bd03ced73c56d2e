package topic

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
)

// Describe describes the topic with the ranges of its partitions, and without its groups.
func (t *Topic) Describe(ctx context.Context) (api.Topic, error) {
	info := describe(t.Document())
	for i := range info.Storage {
		if err := bounds(ctx, t, &info.Storage[i], i == info.Produce); err != nil {
			return api.Topic{}, err
		}
		for _, p := range info.Storage[i].Partitions {
			info.Kept += p.Kept
		}
	}
	return info, nil
}

// Summaries lists all topics, sorted by name. One with an unreadable definition says so in Damaged, and has only a
// name.
func (c *Catalog) Summaries(ctx context.Context) ([]api.TopicSummary, error) {
	list, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]api.TopicSummary, len(list))
	for i, t := range list {
		if t.Err != nil {
			all[i] = api.TopicSummary{Name: t.Name, Damaged: t.Err.Error()}
			continue
		}
		d := t.Definition
		all[i] = api.TopicSummary{
			Name: d.Name, ID: d.Life, Partitions: d.Storage[d.Produce].Partitions, Storages: len(d.Storage) - d.Left(),
			Created: created(d), Moved: (*api.Moved)(d.Moved), Internal: d.Internal,
		}
	}
	return all, nil
}

func created(d *Document) api.Time { return api.TimeOf(time.UnixMilli(d.Created)) }

// bounds fills in the ranges of a storage topic.
func bounds(ctx context.Context, t *Topic, s *api.StorageTopic, producing bool) error {
	if s.Retired() {
		return nil
	}
	st, err := t.Storage(s.Index)
	for p := 0; p < len(s.Partitions) && err == nil; p++ {
		var b commitlog.Bounds
		b, err = st.Bounds(ctx, p)
		s.Partitions[p] = api.Partition{Partition: p, First: b.First, Next: b.Next, Sealed: b.Sealed, Kept: b.Next - b.First, State: partitionState(producing, b.Sealed)}
	}
	if err != nil && t.IsRetired(ctx, s.Index, err) {
		*s, err = describe(t.Document()).Storage[s.Index], nil
	}
	return err
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

func describe(d *Document) api.Topic {
	info := api.Topic{
		Name: d.Name, ID: d.Life, Created: created(d), Router: api.Router(d.Router), Hash: api.Hash(d.Hash), Produce: d.Produce,
		Retention: api.Retention(d.Retention()), Altering: d.Altering, Moved: (*api.Moved)(d.Moved), Internal: d.Internal,
		Storage: make([]api.StorageTopic, len(d.Storage)), Groups: []api.TopicGroup{},
	}
	for i, s := range d.Storage {
		info.Storage[i] = api.StorageTopic{Index: i, Name: s.Name, K: s.K, State: d.storageState(i), Ends: s.Ends, Partitions: []api.Partition{}, Size: s.Partitions}
		if !s.Retired {
			info.Storage[i].Partitions = make([]api.Partition, s.Partitions)
		}
	}
	return info
}

func (d *Document) storageState(index int) string {
	switch {
	case d.Storage[index].Retired:
		return "retired"
	case index < d.Produce:
		return "sealed"
	case index > d.Produce:
		return "open"
	}
	return "producing"
}
