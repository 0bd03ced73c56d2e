package segment_test

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/ringfence/ringfence/internal/segment"
)

// producers is one of everything that a header can say of producers.
func producers() *segment.Producers {
	return &segment.Producers{Floor: 3, Forgotten: []uint64{4, math.MaxUint64}, Known: []*segment.Producer{
		{ID: 12, Epoch: -1, Streams: []segment.Stream{{Partition: 0, Sequence: 1 << 60, First: []int64{1 << 61, 7, 0}}, {Partition: 999, First: []int64{5}}}},
		{ID: 8, Epoch: 2, Streams: []segment.Stream{{Partition: 4, Sequence: 1, First: []int64{9, 7}}}},
		{ID: 9, Epoch: 5}, // all that it appended is damaged
	}}
}

func TestProducersComeBackInTheirOrder(t *testing.T) {
	t.Parallel()
	want := producers()
	b := segment.AppendProducers(nil, want)
	if got, err := segment.ParseProducers(b, 1000); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; expected %+v", got, err, want)
	}
	for n := 1; n < len(b); n++ {
		if _, err := segment.ParseProducers(b[:n], 1000); !errors.Is(err, segment.ErrHeader) {
			t.Errorf("the first %d bytes of %d: %v", n, len(b), err)
		}
	}
	if _, err := segment.ParseProducers(b, 999); !errors.Is(err, segment.ErrHeader) {
		t.Errorf("a partition that the topic does not have: %v", err)
	}
}

func FuzzProducers(f *testing.F) {
	f.Add(segment.AppendProducers(nil, producers()))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := segment.ParseProducers(b, 1000); err == nil {
			if again, err := segment.ParseProducers(segment.AppendProducers(nil, p), 1000); err != nil || !reflect.DeepEqual(p, again) {
				t.Errorf("%+v comes back as %+v, %v", p, again, err)
			}
		}
	})
}

func TestProducersOfATopicWithoutAnyAreEmpty(t *testing.T) {
	t.Parallel()
	if b := segment.AppendProducers(nil, &segment.Producers{}); len(b) != 0 {
		t.Errorf("%d bytes of nothing", len(b))
	}
}

// Whoever reads looks things up in an order. What stands in another one was not written by us.
func TestProducersInAnotherOrderAreRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(p *segment.Producers){
		"forgotten IDs":       func(p *segment.Producers) { p.Forgotten = []uint64{9, 4} },
		"partitions":          func(p *segment.Producers) { s := p.Known[0].Streams; s[0].Partition, s[1].Partition = 999, 0 },
		"one partition twice": func(p *segment.Producers) { s := p.Known[0].Streams; s[1].Partition = s[0].Partition },
		"no offset":           func(p *segment.Producers) { p.Known[1].Streams[0].First = nil },
	} {
		p := producers()
		spoil(p)
		if got, err := segment.ParseProducers(segment.AppendProducers(nil, p), 1000); !errors.Is(err, segment.ErrHeader) {
			t.Errorf("%s: %+v, %v; expected %v", name, got, err, segment.ErrHeader)
		}
	}
}
