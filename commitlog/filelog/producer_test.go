package filelog_test

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/vfs"
)

func producer(id uint64, sequence int64) *commitlog.AppendOptions {
	return &commitlog.AppendOptions{Producer: commitlog.Producer{ID: id, Sequence: sequence}}
}

// batchOf appends one record for each of n producers and waits for all.
func batchOf(t *testing.T, topic *commitlog.Topic, n int, each func(i int) (partition int, opts *commitlog.AppendOptions)) {
	t.Helper()
	var under sync.WaitGroup
	var refused atomic.Int64
	for i := range n {
		under.Add(1)
		partition, opts := each(i)
		topic.AppendAsync(t.Context(), partition, []commitlog.Record{{Value: []byte("x")}}, opts, func(_ int64, err error) {
			defer under.Done()
			if err != nil && refused.Add(1) == 1 {
				t.Errorf("%+v in partition %d: %v", opts.Producer, partition, err)
			}
		})
	}
	under.Wait()
	if n := refused.Load(); n > 1 {
		t.Errorf("%d appends were refused", n)
	}
}

func TestWhoIsForgottenIsToldAndNeverStoredTwice(t *testing.T) {
	t.Parallel()
	c := filelog.Config{Dir: t.TempDir(), Options: driver.Options{Durability: driver.OS}}
	topic := openTopic(t, open(t, c), "t", 2)
	const n = 80_000
	id := func(i int) uint64 { return uint64(1+i) << 20 } // they rise with the time
	batchOf(t, topic, n, func(i int) (int, *commitlog.AppendOptions) { return i % 2, producer(id(i), 0) })
	again := func(topic *commitlog.Topic, i int, sequence int64) error {
		_, err := topic.Append(t.Context(), i%2, []commitlog.Record{{Value: []byte("x")}}, producer(id(i), sequence))
		return err
	}
	for _, topic := range []*commitlog.Topic{topic, openTopic(t, open(t, c), "t", 2)} {
		for i := range n {
			if i%997 == 0 && i < n/4 {
				for _, sequence := range []int64{0, 1} {
					if err := again(topic, i, sequence); !errors.Is(err, commitlog.ErrForgotten) {
						t.Fatalf("producer %d of %d, sequence %d: %v; expected %v", i, n, sequence, err, commitlog.ErrForgotten)
					}
				}
			}
			if i >= n-11_000 {
				if err := again(topic, i, 0); err != nil {
					t.Fatalf("the last append of producer %d of %d again: %v", i, n, err)
				}
			}
		}
	}
	batchOf(t, topic, 1000, func(i int) (int, *commitlog.AppendOptions) { return i % 2, producer(id(n+i), 0) })
	stored := int64(0)
	for p := range 2 {
		b, err := topic.Bounds(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		stored += b.Next
	}
	if stored != n+1000 {
		t.Errorf("%d records are stored; expected %d", stored, n+1000)
	}
}

func TestAProducerMayUseEveryPartition(t *testing.T) {
	t.Parallel()
	topic := openTopic(t, open(t, filelog.Config{FS: vfs.NewMem(1)}), "t", commitlog.MaxPartitions)
	for sequence := range int64(3) {
		batchOf(t, topic, 2*commitlog.MaxPartitions, func(i int) (int, *commitlog.AppendOptions) {
			return i / 2, producer(uint64(1+i%2), sequence)
		})
	}
}

// The frame by which a producer became known rots. What is left of it is the frame, without records,
// that tells of its newer life.
func TestAProducerOfWhichOnlyItsEpochIsLeft(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	topic := openTopic(t, open(t, filelog.Config{FS: mem.Process()}), "t", 1)
	put := func(topic *commitlog.Topic, epoch int32, sequence int64) error {
		_, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: bytes.Repeat([]byte("x"), 400)}},
			&commitlog.AppendOptions{Producer: commitlog.Producer{ID: 7, Epoch: epoch, Sequence: sequence}})
		return err
	}
	for _, epoch := range []int32{0, 1} { // the second is a repetition, and leaves a fence
		if err := put(topic, epoch, 0); err != nil {
			t.Fatal(err)
		}
	}
	rewrite(t, mem, newerSegment, func(b []byte) { b[bytes.Index(b, bytes.Repeat([]byte("x"), 400))-60] ^= 1 })
	other := openTopic(t, open(t, filelog.Config{FS: mem.Process()}), "t", 1)
	for _, topic := range []*commitlog.Topic{other, openTopic(t, open(t, filelog.Config{FS: mem.Process()}), "t", 1)} {
		if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("y")}}, nil); err != nil {
			t.Error(err)
		}
		if err := put(topic, 0, 0); err == nil {
			t.Error("a fenced producer appended")
		}
	}
}
