package kafkalog

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// batchAt is a batch of one record at an offset.
func batchAt(offset int64) []byte {
	b := builder{}
	b.reset(nil)
	b.add(&driver.Record{Value: []byte("v")}, 1, driver.Header{})
	raw := bytes.Clone(b.finish(nil, 1, 0, 0))
	binary.BigEndian.PutUint64(raw, uint64(offset)) //nolint:gosec // not below zero
	return raw
}

func answer(offsets ...int64) (raw []byte) {
	for _, o := range offsets {
		raw = append(raw, batchAt(o)...)
	}
	return raw
}

func TestAGapIsSeenWhereverItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		offsets []int64
		want    bool
	}{{nil, true}, {[]int64{7, 8, 9}, true}, {[]int64{8}, false}, {[]int64{6, 7}, false}, {[]int64{7, 9}, false}, {[]int64{7, 8, 8}, false}} {
		if got := follows(answer(c.offsets...), 7); got != c.want {
			t.Errorf("batches at %v behind offset 7: %v; expected %v", c.offsets, got, c.want)
		}
	}
	if cut := answer(7, 8); !follows(cut[:len(cut)-1], 7) {
		t.Error("what is cut off is a gap")
	}
}

// What only one of two answers has is not believed, nor what follows it.
func TestTwoAnswersAgreeAsFarAsTheyAreTheSame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ one, other, want []int64 }{
		{[]int64{9, 10}, []int64{9, 10}, []int64{9, 10}},
		{[]int64{9, 10}, []int64{7, 8}, nil},
		{[]int64{9, 12, 13}, []int64{9, 10, 13}, []int64{9}},
		{[]int64{9, 10}, []int64{9}, []int64{9}},
		{[]int64{9}, nil, nil},
	} {
		if got := agreed(answer(c.one...), answer(c.other...)); !bytes.Equal(got, answer(c.want...)) {
			t.Errorf("%v and %v: %d bytes; expected %v", c.one, c.other, len(got), c.want)
		}
	}
}
