package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
)

// retained is a topic whose retention is applied by hand.
func retained(t *testing.T, c driver.TopicConfig) (*kafkaLog, *handle) {
	t.Helper()
	u, err := url.Parse(testserver.URL(t, "kafka"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := open(t.Context(), Config{Brokers: strings.Split(u.Host, ","), Prefix: fmt.Sprintf("test-%x.", rand.Uint32())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, name := range []string{"t", holdsTopic} {
			if err := l.DeleteTopic(context.Background(), name); err != nil && !isNotFound(err) {
				t.Error(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	c.Name, c.Partitions = "t", 2
	if err := l.CreateTopic(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	topic, err := l.OpenTopic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	h, _ := topic.(*handle)
	return l, h
}

func (h *handle) fill(t *testing.T, n, size int, millis func(i int) int64) {
	t.Helper()
	for i := range n {
		answer := make(chan error, 1)
		h.Append(t.Context(), &driver.AppendRequest{Records: []driver.Record{{Timestamp: millis(i), Value: make([]byte, size)}}}, func(_ int64, err error) { answer <- err })
		if err := <-answer; err != nil {
			t.Fatal(err)
		}
	}
}

func (h *handle) first(t *testing.T) int64 {
	t.Helper()
	b, err := h.Bounds(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return b.First
}

func TestRetentionByAgeStopsAtTheLowestHold(t *testing.T) {
	t.Parallel()
	l, h := retained(t, driver.TopicConfig{RetentionAgeMillis: 1000})
	begun := time.Now()
	h.fill(t, 10, 1, func(i int) int64 { return begun.UnixMilli() + int64(100*i) })
	now := begun.Add(1500 * time.Millisecond) // the first five are too old
	for _, step := range []struct {
		name  string
		holds []int64
		want  int64
	}{
		{"a", []int64{4, -1}, 2},
		{"b", []int64{2, -1}, 2},
		{"b", []int64{-1, -1}, 4},
		{"a", []int64{9, 3}, 5},
	} {
		if err := h.Hold(t.Context(), step.name, step.holds); err != nil {
			t.Fatal(err)
		}
		if step.name == "a" && step.want == 2 {
			continue // the second hold is to be there too
		}
		if err := h.s.retain(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if got := h.first(t); got != step.want {
			t.Fatalf("the first offset is %d after the hold %q of %v; want %d", got, step.name, step.holds, step.want)
		}
	}
	if list, err := l.Topics(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("topics %+v, %v; the one of the holds is none of ours", list, err)
	}
}

// Nobody knows what a hold that can't be read was there to keep.
func TestADamagedHoldKeepsEverythingUntilItIsReplaced(t *testing.T) {
	t.Parallel()
	l, h := retained(t, driver.TopicConfig{RetentionBytes: 1000})
	h.fill(t, 10, 1000, func(int) int64 { return 0 })
	for _, damaged := range []string{"", "nonsense", "[]", "null", `{"0":9}`, `["9","9"]`} {
		holds, err := l.holds(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		answer := make(chan error, 1)
		rec := driver.Record{Key: []byte(h.s.holdKey("group")), Value: []byte(damaged)}
		holds.Append(t.Context(), &driver.AppendRequest{Records: []driver.Record{rec}}, func(_ int64, err error) { answer <- err })
		if err := errors.Join(<-answer, holds.Close()); err != nil {
			t.Fatal(err)
		}
		err = h.s.retain(t.Context(), time.Now())
		if got := h.first(t); !errors.Is(err, fault.Corrupt) || got != 0 {
			t.Errorf("beside the hold %q retention gives %v and begins at %d; expected it to stop", damaged, err, got)
		}
	}
	// A process that sees more partitions in Kafka stores a longer list.
	if err := h.Hold(t.Context(), "group", []int64{10, 0, -1}); err != nil {
		t.Fatal(err)
	}
	if err := h.s.retain(t.Context(), time.Now()); err != nil || h.first(t) == 0 {
		t.Errorf("with the hold replaced retention gives %v and drops nothing", err)
	}
}

func TestRetentionBySizeDropsAboutWhatIsTooMuch(t *testing.T) {
	t.Parallel()
	_, h := retained(t, driver.TopicConfig{RetentionBytes: 20_000})
	h.fill(t, 60, 1000, func(int) int64 { return 0 })
	for range 2 { // a second time there is nothing to do
		if err := h.s.retain(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if got := h.first(t); got < 35 || got > 50 {
			t.Errorf("the first offset of 60 records of 1,000 bytes is %d; want about 41", got)
		}
	}
}

// Kafka's own retention is off unless it is forced: it asks nobody.
func TestKafkaDropsNothingByItself(t *testing.T) {
	t.Parallel()
	l, _ := retained(t, driver.TopicConfig{RetentionAgeMillis: 1000})
	all, err := l.describeConfigs(t.Context(), l.kafkaName("t"))
	if err != nil {
		t.Fatal(err)
	}
	if s := all[l.kafkaName("t")]; s[retentionMillis] != "-1" || s[retentionBytes] != "-1" {
		t.Errorf("Kafka's retention is %s ms and %s bytes", s[retentionMillis], s[retentionBytes])
	}
}

// The holds are written again and again, and read on from where the last look ended.
func TestHoldsAreCompactedSoonAndReadOn(t *testing.T) {
	t.Parallel()
	l, h := retained(t, driver.TopicConfig{RetentionAgeMillis: 1000})
	held := func(want ...int64) {
		t.Helper()
		if got, err := l.heldOf(t.Context(), h.s); err != nil || !slices.Equal(got, want) {
			t.Errorf("held %v, %v; want %v", got, err, want)
		}
	}
	hold := func(name string, offsets ...int64) {
		t.Helper()
		if err := h.Hold(t.Context(), name, offsets); err != nil {
			t.Fatal(err)
		}
	}
	held(-1, -1)
	hold("a", 4, 5)
	hold("b", 3, -1)
	held(3, 5)
	if l.held.next != 2 {
		t.Errorf("read to offset %d; want 2", l.held.next)
	}
	hold("b", -1, -1)
	held(4, 5)
	if err := l.DeleteTopic(t.Context(), holdsTopic); err != nil {
		t.Fatal(err)
	}
	hold("c", 9, 9)
	hold("c", 8, 9)
	hold("c", 7, 9)
	held(7, 9) // of the new topic, though its end is where the old one was read to

	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: l.kafkaName(holdsTopic)})
	resp, err := req.RequestWith(t.Context(), l.main)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range resp.Resources[0].Configs {
		if want, ok := holdSettings[c.Name]; ok && (c.Value == nil || *c.Value != want) {
			t.Errorf("%s of the topic of the holds is not %s", c.Name, want)
		}
	}
}

// Another program may add partitions to a topic. The holds from before then are none that can't be read.
func TestHoldsOutliveAddedPartitions(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][]int64{"[4,5]": {4, 5, -1}, "[4,5,6]": {4, 5, 6}, "[4,5,6,7]": {4, 5, 6}} {
		if got, err := decodeHold("k", []byte(value), 3); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s of 3 partitions is %v, %v; expected %v", value, got, err, want)
		}
	}
	for _, value := range []string{"", "[]", "{"} {
		if got, err := decodeHold("k", []byte(value), 3); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%q is %v, %v; expected ErrCorrupt", value, got, err)
		}
	}
}
