package filelog_test

import (
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/filelog"
)

func TestASequenceFromLongAgoIsAnsweredWithItsFirstOffset(t *testing.T) {
	t.Parallel()
	c := filelog.Config{Dir: t.TempDir(), SegmentBytes: filelog.MinSegmentBytes}
	topic := openTopic(t, open(t, c), "t", 2)
	recs := []commitlog.Record{{Value: make([]byte, 3000)}, {Value: []byte("x")}}
	const n = 200 // several segments
	for i := range int64(n) {
		first, err := topic.Append(t.Context(), 1, recs, producer(i))
		if err != nil || first != 2*i {
			t.Fatalf("sequence %d went to %d, %v", i, first, err)
		}
	}
	other := openTopic(t, open(t, c), "t", 2) // it knows the producer from the segments only
	for _, topic := range []*commitlog.Topic{topic, other} {
		for _, i := range []int64{0, 1, n / 2, n - 9, n - 2, n - 1} {
			if first, err := topic.Append(t.Context(), 1, recs, producer(i)); err != nil || first != 2*i {
				t.Errorf("sequence %d again: %d, %v; expected %d", i, first, err, 2*i)
			}
		}
	}
	if b, err := topic.Bounds(t.Context(), 1); err != nil || b.Next != 2*n {
		t.Errorf("the repetitions were stored: %+v, %v", b, err)
	}
}

func producer(sequence int64) *commitlog.AppendOptions {
	return &commitlog.AppendOptions{Producer: commitlog.Producer{ID: 7, Sequence: sequence}}
}
