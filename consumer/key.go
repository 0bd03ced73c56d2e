package consumer

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

const (
	lookRecords = 100_000         // of a partition that are looked at for a key
	lookTime    = 3 * time.Second // and for how long
)

// WaitsOf finds what a group of that layout has not finished of a key: one api.KeyWait for each partition that the router
// gives the key and that has records left. current opens a topic by its name, as it is now.
func (l Layout) WaitsOf(ctx context.Context, reg *registry.Registry, name string, key []byte, current func(context.Context, string) (*topic.Topic, error)) ([]api.KeyWait, error) {
	d, err := group.Describe(ctx, reg, name)
	if err == nil {
		err = l.fits(name, &d.Meta)
	}
	if err != nil {
		return nil, err
	}
	t, err := current(ctx, d.Meta.Topic)
	if err != nil {
		return nil, err
	}
	doc := t.Document()
	waits := []api.KeyWait{}
	for n, u := range l.of(doc) {
		for _, in := range u.Inputs {
			if in.Storage < doc.Left() || in.Partition != partitionOf(doc, in.Storage, key) {
				continue
			}
			unit := d.Unit(n)
			w, err := waitOf(ctx, t, in.Storage, in.Partition, &unit, key)
			if err != nil {
				return waits, err
			}
			if w.Records > 0 || w.Unseen > 0 {
				waits = append(waits, w)
			}
		}
	}
	return waits, nil
}

// partitionOf is where the router puts a key in a storage topic.
func partitionOf(doc *topic.Document, storage int, key []byte) int {
	s := &doc.Storage[storage]
	r := doc.Router.For(doc.Hash, s.Partitions, s.K)
	return r.Partition(key)
}

// waitOf looks at the records of one partition that the unit has not finished.
func waitOf(ctx context.Context, t *topic.Topic, storage, partition int, s *group.Status, key []byte) (api.KeyWait, error) {
	w := api.KeyWait{Storage: storage, Partition: partition, Unit: s.Number, Phase: s.Phase, Epoch: s.Owner.Epoch}
	if alive(s.Phase) {
		w.Owner = s.Owner.Member
	}
	st, err := t.Storage(storage)
	if err != nil {
		return w, err
	}
	b, err := st.Bounds(ctx, partition)
	if err != nil {
		return w, err
	}
	at, pos := b.First, s.Unit.Checkpoint.Position(storage, partition)
	if pos != nil {
		at = max(at, pos.Next)
	}
	until := time.Now().Add(lookTime)
	for looked := 0; at < b.Next; {
		if looked >= lookRecords || time.Now().After(until) {
			w.Unseen = b.Next - at
			break
		}
		recs, next, err := st.Read(ctx, partition, at, nil, &commitlog.ReadOptions{MaxBytes: 1 << 20})
		if errors.Is(err, fault.Corrupt) || errors.Is(err, fault.OutOfRange) {
			w.Unseen = b.Next - at // the group says what is wrong there
			break
		}
		if err != nil {
			return w, err
		}
		for i := range recs {
			look(&w, &recs[i], s, pos, key)
		}
		looked += len(recs)
		if next <= at {
			break
		}
		at = next
	}
	return w, nil
}

// look counts a record: one of the key that is not finished, or one before the first of those.
func look(w *api.KeyWait, r *commitlog.Record, s *group.Status, pos *protocol.Position, key []byte) {
	if pos != nil {
		for _, done := range pos.Done {
			if r.Offset >= done[0] && r.Offset < done[1] {
				return
			}
		}
	}
	if r.Key == nil || !bytes.Equal(r.Key, key) {
		if w.Records == 0 {
			w.Before++
		}
		return
	}
	if w.Records++; w.Records > 1 {
		return
	}
	w.Offset, w.ProducedAt = r.Offset, api.Millis(r.Timestamp)
	if d := s.Told(); d != nil && d.Failing != nil && d.Failing.Storage == w.Storage && d.Failing.Partition == w.Partition && d.Failing.Offset == r.Offset {
		f := d.Failing
		w.Held = &api.HeldRecord{Attempts: f.Attempts, Since: api.Millis(f.Since), Due: api.Millis(f.Due), Answer: f.Why}
	}
	if pos == nil {
		return
	}
	for _, f := range pos.Failing {
		if f.Offset == r.Offset {
			w.Held = &api.HeldRecord{Attempts: f.Attempts, Since: api.Millis(f.Since), Due: api.Millis(f.Due)}
		}
	}
}
