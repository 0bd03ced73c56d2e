package mirror

import (
	"context"
	"slices"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/registry"
)

// translator finds offsets of a copied partition from those of its source.
type translator struct {
	from, to     *commitlog.Topic
	partition    int
	s            *state
	first        int64 // of the source
	begin, end   int64 // of the target
	known        map[int64]int64
	recs, target []commitlog.Record // memory to read into
}

func newTranslator(ctx context.Context, from, to *commitlog.Topic, partition int, s *state) (*translator, error) {
	t := &translator{from: from, to: to, partition: partition, s: s, known: map[int64]int64{}}
	b, err := from.Bounds(ctx, partition)
	if err != nil {
		return nil, err
	}
	t.first = b.First
	if b, err = to.Bounds(ctx, partition); err != nil {
		return nil, err
	}
	t.begin, t.end = b.First, b.Next
	return t, nil
}

// position translates the progress in a partition: each record that was finished stays finished,
// each that was not stays to be done.
func (t *translator) position(ctx context.Context, p registry.Position) (registry.Position, error) {
	q := registry.Position{Storage: p.Storage, Partition: p.Partition}
	var err error
	if q.Next, err = t.offset(ctx, p.Next); err != nil {
		return q, err
	}
	for _, r := range p.Done {
		var done registry.Range
		for i := range r {
			if done[i], err = t.offset(ctx, r[i]); err != nil {
				return q, err
			}
		}
		if done[0] < done[1] {
			q.Done = append(q.Done, done)
		}
	}
	return q, nil
}

// offset is where the first copied record at or above an offset of the source stands in the
// target; its end when there is none.
func (t *translator) offset(ctx context.Context, source int64) (int64, error) {
	if at, ok := t.known[source]; ok {
		return at, nil
	}
	ordinal, err := t.ordinal(ctx, source)
	if err != nil {
		return 0, err
	}
	at, err := t.place(ctx, ordinal)
	if err == nil {
		t.known[source] = at
	}
	return at, err
}

// ordinal is how many copied records stand below an offset of the source. It counts back from the
// next anchor, because what lies below the offset may have been dropped by retention.
func (t *translator) ordinal(ctx context.Context, source int64) (int64, error) {
	next := anchor{Source: t.s.From, Records: t.s.Records}
	if i := slices.IndexFunc(t.s.Anchors, func(a anchor) bool { return a.Source > source }); i >= 0 {
		next = t.s.Anchors[i]
	}
	n := next.Records
	for at := max(source, t.first); at < next.Source; {
		recs, to, err := t.from.Read(ctx, t.partition, at, t.recs[:0], nil)
		if err != nil {
			return 0, err
		}
		t.recs = recs
		if len(recs) == 0 && to == at {
			break
		}
		for _, r := range recs {
			if r.Offset < next.Source {
				n--
			}
		}
		at = to
	}
	return max(n, 0), nil
}

// place is the offset of the record of the target before which so many were copied.
func (t *translator) place(ctx context.Context, ordinal int64) (int64, error) {
	if ordinal >= t.s.Records {
		return t.end, nil
	}
	a := anchor{Target: t.begin} // when nobody remembers where the first append went
	for _, b := range t.s.Anchors {
		if b.Records <= ordinal {
			a = b
		}
	}
	if a.Target < t.begin { // retention dropped what would have to be counted
		return t.begin, nil
	}
	skip := ordinal - a.Records
	for at := a.Target; at < t.end; {
		recs, next, err := t.to.Read(ctx, t.partition, at, t.target[:0], nil)
		if err != nil {
			return 0, err
		}
		t.target = recs
		if int64(len(recs)) > skip {
			return recs[skip].Offset, nil
		}
		if len(recs) == 0 && next == at {
			break
		}
		skip -= int64(len(recs))
		at = next
	}
	return t.end, nil
}
