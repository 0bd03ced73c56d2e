package mirror

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
)

// translator finds offsets of a copied partition from those of its source.
type translator struct {
	from, to     *commitlog.Topic
	partition    int
	s            *state
	first        int64              // of the source
	begin, end   int64              // of the target
	recs, target []commitlog.Record // memory to read into
}

func newTranslator(ctx context.Context, from, to *commitlog.Topic, partition int, s *state) (*translator, error) {
	t := &translator{from: from, to: to, partition: partition, s: s}
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
// each that was not stays to be done. Both sides are read once, however many ranges it has.
//
// *commitlog.OutOfRangeError when the source does not have what the group needs, or the target has
// dropped some of it: nothing says then where the group would have to go on.
func (t *translator) position(ctx context.Context, p protocol.Position) (protocol.Position, error) {
	q := protocol.Position{Storage: p.Storage, Partition: p.Partition}
	if p.Next < t.first {
		return q, fmt.Errorf("the source has dropped what the group needs next; send it to where it shall go on (group seek) and cut over again: %w",
			&commitlog.OutOfRangeError{Topic: t.from.Config().Name, Partition: t.partition, Offset: p.Next, First: t.first, End: t.s.From})
	}
	sources := []int64{p.Next}
	for _, r := range p.Done {
		sources = append(sources, r[0], r[1])
	}
	slices.Sort(sources)
	sources = slices.Compact(sources)
	ordinals, err := t.ordinals(ctx, sources)
	if err != nil {
		return q, err
	}
	offsets, err := t.offsetsOf(ctx, ordinals)
	if err != nil {
		return q, err
	}
	at := make(map[int64]int64, len(sources))
	for i, source := range sources {
		at[source] = offsets[i]
	}
	q.Next = at[p.Next]
	for _, r := range p.Done {
		if from, to := at[r[0]], at[r[1]]; from < to {
			q.Done = append(q.Done, protocol.Range{from, to})
		}
	}
	return q, nil
}

// ordinals are how many copied records stand below each of some offsets of the source, which ascend.
// They are counted back from the next anchor, because what lies below may have been dropped by
// retention.
func (t *translator) ordinals(ctx context.Context, sources []int64) ([]int64, error) {
	next := anchor{Source: t.s.From, Records: t.s.Records}
	last := sources[len(sources)-1]
	if i := slices.IndexFunc(t.s.Anchors, func(a anchor) bool { return a.Source > last }); i >= 0 {
		next = t.s.Anchors[i]
	}
	below, read, i := make([]int64, len(sources)), int64(0), 0
	reach := func(offset int64) {
		for ; i < len(sources) && sources[i] <= offset; i++ {
			below[i] = read
		}
	}
	for at := max(sources[0], t.first); at < next.Source; {
		recs, to, err := t.from.Read(ctx, t.partition, at, t.recs[:0], nil)
		if err != nil {
			return nil, err
		}
		t.recs = recs
		if len(recs) == 0 && to == at {
			break
		}
		for k := 0; k < len(recs) && recs[k].Offset < next.Source; k++ {
			reach(recs[k].Offset)
			read++
		}
		at = to
	}
	reach(math.MaxInt64)
	for i := range below {
		below[i] = max(0, next.Records-(read-below[i]))
	}
	return below, nil
}

// offsetsOf are the offsets of the records of the target before which so many were copied, of each of
// some numbers that ascend; the end of the target where there is none.
func (t *translator) offsetsOf(ctx context.Context, ordinals []int64) ([]int64, error) {
	at := make([]int64, len(ordinals))
	here := anchor{Target: t.begin} // when nobody remembers where the first append went
	for i := 0; i < len(ordinals); {
		if ordinals[i] >= t.s.Records {
			at[i] = t.end
			i++
			continue
		}
		for _, a := range t.s.Anchors {
			if a.Records <= ordinals[i] && a.Records >= here.Records {
				here = a
			}
		}
		if here.Target < t.begin {
			return nil, fmt.Errorf("the target has dropped records that were copied to it, the group's next one perhaps among them; delete the topic there, and all is copied again: %w",
				&commitlog.OutOfRangeError{Topic: t.to.Config().Name, Partition: t.partition, Offset: here.Target, First: t.begin, End: t.end})
		}
		recs, next, err := t.to.Read(ctx, t.partition, here.Target, t.target[:0], nil)
		if err != nil {
			return nil, err
		}
		t.target = recs
		if len(recs) == 0 && next == here.Target {
			at[i] = t.end
			i++
			continue
		}
		past := here.Records + int64(len(recs))
		for ; i < len(ordinals) && ordinals[i] < past; i++ {
			at[i] = recs[ordinals[i]-here.Records].Offset
		}
		here = anchor{Target: next, Records: past}
	}
	return at, nil
}
