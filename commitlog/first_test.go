package commitlog_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// holdsSeen tells what holds its driver was given.
type holdsSeen struct {
	driver.Log
	last []int64
}

type holdSeen struct {
	driver.Topic
	of *holdsSeen
}

func (l *holdsSeen) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	return &holdSeen{t, l}, err
}

func (t *holdSeen) Hold(ctx context.Context, name string, offsets []int64) error {
	t.of.last = offsets
	return t.Topic.Hold(ctx, name, offsets)
}

func TestFirstIsATopicOfThatManyPartitions(t *testing.T) {
	t.Parallel()
	seen := &holdsSeen{Log: memlog.NewStore(nil).Driver()}
	ctx, l := t.Context(), commitlog.New(seen)
	defer l.Close()
	if err := l.CreateTopic(ctx, commitlog.TopicConfig{Name: "t", Partitions: 5}); err != nil {
		t.Fatal(err)
	}
	all, err := l.Topic(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	first := all.First(3).First(2)
	if n := first.Config().Partitions; n != 2 {
		t.Errorf("%d partitions; expected 2", n)
	}
	for p := range 5 {
		_, err := first.Append(ctx, p, []commitlog.Record{{Value: []byte("a")}}, nil)
		_, outside := first.Bounds(ctx, p)
		if p < 2 && errors.Join(err, outside) != nil || p >= 2 && (!errors.Is(err, fault.Invalid) || !errors.Is(outside, fault.Invalid)) {
			t.Errorf("partition %d: %v, %v", p, err, outside)
		}
	}
	if err := first.Hold(ctx, "g", []int64{0, 1}); err != nil || !slices.Equal(seen.last, []int64{0, 1, -1, -1, -1}) {
		t.Errorf("held %v, %v; expected no opinion of what is behind the first two", seen.last, err)
	}
	if err := first.Hold(ctx, "g", make([]int64, 5)); !errors.Is(err, fault.Invalid) {
		t.Errorf("a hold of five partitions: %v", err)
	}
	if ends, err := first.Seal(ctx); err != nil || len(ends) != 2 || ends[0] != 1 || ends[1] != 1 {
		t.Errorf("sealed at %v, %v", ends, err)
	}
	if same := first.First(2); same != first {
		t.Error("another handle of the same partitions")
	}
}
