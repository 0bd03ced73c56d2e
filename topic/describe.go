package topic

import (
	"context"

	"github.com/ringfence/ringfence/commitlog"
)

// Info describes a topic.
type Info struct {
	Name    string `json:"name"`
	Life    string `json:"life"` // the ID of this topic among those that had the name
	Router  Router `json:"router"`
	Hash    Hash   `json:"hash"`
	Produce int    `json:"produce"` // index of the storage topic that takes new records
	// Switching: producers are on their way to the next storage topic.
	Switching bool      `json:"switching,omitempty"`
	Retention Retention `json:"retention"` // of each storage topic
	// Altering: some storage topics may still have the retention that was before.
	Altering bool          `json:"altering,omitempty"`
	Storage  []StorageInfo `json:"storage"`
	Created  int64         `json:"created"` // Unix ms
	// Moved, when not nil, says to which log the topic was moved: it takes no records here, and can't
	// be consumed here.
	Moved *Moved `json:"moved,omitempty"`
	// Internal is what the topic is a part of; "": it is its users'. Only its owner produces to it.
	Internal string `json:"internal,omitempty"`
	// Damaged says why the topic can't be read; "": it can.
	Damaged string `json:"damaged,omitempty"`
}

// StorageInfo describes one storage topic of a topic.
type StorageInfo struct {
	Index int     `json:"index"`
	Name  string  `json:"name"`
	K     int     `json:"k"`
	Ends  []int64 `json:"ends,omitempty"` // by partition: where it was sealed; nil: it was not
	// Retired: it is gone, as all groups had finished it and no record was left. Its place stays.
	Retired    bool            `json:"retired,omitempty"`
	Partitions []PartitionInfo `json:"partitions"`
}

// PartitionInfo is the readable range of a partition.
type PartitionInfo struct {
	Partition int   `json:"partition"`
	First     int64 `json:"first"` // lowest offset that is kept
	Next      int64 `json:"next"`  // every record is below it
	Sealed    bool  `json:"sealed"`
}

// Describe describes the topic with the ranges of its partitions.
func (t *Topic) Describe(ctx context.Context) (Info, error) {
	info := describe(t.Document())
	for i := range info.Storage {
		if err := bounds(ctx, t, &info.Storage[i]); err != nil {
			return Info{}, err
		}
	}
	return info, nil
}

// Infos describes all topics, sorted by name, without the ranges of their partitions. One whose definition
// can't be read says so in Damaged, and has only a name.
func (c *Catalog) Infos(ctx context.Context) ([]Info, error) {
	list, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, len(list))
	for i, t := range list {
		if t.Err != nil {
			infos[i] = Info{Name: t.Name, Damaged: t.Err.Error()}
		} else {
			infos[i] = describe(t.Definition)
		}
	}
	return infos, nil
}

// bounds fills in the ranges of a storage topic.
func bounds(ctx context.Context, t *Topic, s *StorageInfo) error {
	if s.Retired {
		return nil
	}
	st, err := t.Storage(s.Index)
	for p := 0; p < len(s.Partitions) && err == nil; p++ {
		var b commitlog.Bounds
		b, err = st.Bounds(ctx, p)
		s.Partitions[p] = PartitionInfo{Partition: p, First: b.First, Next: b.Next, Sealed: b.Sealed}
	}
	if err != nil && t.IsRetired(ctx, s.Index, err) {
		*s, err = describe(t.Document()).Storage[s.Index], nil
	}
	return err
}

func describe(d *Document) Info {
	info := Info{Name: d.Name, Life: d.Life, Router: d.Router, Hash: d.Hash, Produce: d.Produce, Switching: d.Switching, Retention: d.Retention(), Altering: d.Altering, Created: d.Created, Moved: d.Moved, Internal: d.Internal}
	for i, s := range d.Storage {
		si := StorageInfo{Index: i, Name: s.Name, K: s.K, Ends: s.Ends, Retired: s.Retired, Partitions: make([]PartitionInfo, s.Partitions)}
		for p := range si.Partitions {
			si.Partitions[p].Partition, si.Partitions[p].Sealed = p, s.Retired
		}
		info.Storage = append(info.Storage, si)
	}
	return info
}
