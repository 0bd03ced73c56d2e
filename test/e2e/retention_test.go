package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
)

// retained opens a directory with small segments and makes a topic that keeps little.
func retained(t *testing.T, topics ...string) *ringfence.Client {
	t.Helper()
	dir := t.TempDir()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "file://" + dir + "?segment=65536", Registry: "file://" + dir, Durability: ringfence.OS})
	must(t, err)
	t.Cleanup(func() { must(t, rf.Close()) })
	for _, name := range topics {
		must(t, rf.EnsureTopic(t.Context(), name, ringfence.TopicConfig{Partitions: 1, RetentionBytes: 128 << 10}))
	}
	return rf
}

// flood produces a few segments of records.
func flood(t *testing.T, rf *ringfence.Client, topic string) {
	t.Helper()
	m := ringfence.Message{Value: make([]byte, 8<<10)}
	for range 100 {
		_, err := rf.Produce(t.Context(), topic, m)
		must(t, err)
	}
}

func first(t *testing.T, rf *ringfence.Client, topic string) int64 {
	t.Helper()
	info, err := rf.Admin().DescribeTopic(t.Context(), topic)
	must(t, err)
	return info.Storage[0].Partitions[0].First
}

// stuckAtFive has group g process the first five records of the held topic, and no more.
func stuckAtFive(t *testing.T, rf *ringfence.Client) *consumer {
	t.Helper()
	got := newRecorder()
	produce(t, rf, "held", 0, 5, 1)
	c := consume(t, rf, "held", "g", func(ctx context.Context, m *ringfence.Message) error {
		if m.Offset < 5 {
			return got.handle(ctx, m)
		}
		<-ctx.Done() // it gets no further
		return ctx.Err()
	}, ringfence.ConsumeOptions{DrainTimeout: 10 * time.Millisecond})
	got.waitFor(t, 5)
	return c
}

// retentionWorks floods both topics until retention has been at work; it looks at one after the other.
func retentionWorks(t *testing.T, rf *ringfence.Client) {
	t.Helper()
	for range 3 {
		before := first(t, rf, "free")
		flood(t, rf, "held")
		flood(t, rf, "free")
		eventually(t, "retention to trim the free topic", func() bool { return first(t, rf, "free") > before })
	}
}

// goesOnWithoutTheGroup wants retention to take of the held topic what only group g has kept.
func goesOnWithoutTheGroup(t *testing.T, rf *ringfence.Client) {
	t.Helper()
	must(t, rf.Admin().DeleteGroup(t.Context(), "g", nil))
	eventually(t, "retention to go on without the group", func() bool {
		flood(t, rf, "held")
		return first(t, rf, "held") > 5
	})
}

// A consumer that runs for a moment only must be enough: what its group has not processed is
// kept, while the same flood without a group is trimmed.
func TestRetentionKeepsWhatAGroupThatRanForAMomentNeeds(t *testing.T) {
	t.Parallel()
	rf := retained(t, "held", "free")
	c := stuckAtFive(t, rf)
	for _, when := range []string{"while it runs", "after it left"} {
		retentionWorks(t, rf)
		if at := first(t, rf, "held"); at > 5 {
			t.Fatalf("%s the topic begins at offset %d; group g has processed 5 records only", when, at)
		}
		if c != nil {
			c.leave(t)
			c = nil
		}
	}
	goesOnWithoutTheGroup(t, rf)
}

// A group is sent back to records that it had let go of. They have to be there when its next member
// comes, be it tomorrow.
func TestWhatAGroupIsSentBackToIsKept(t *testing.T) {
	t.Parallel()
	rf := retained(t, "held", "free")
	got := newRecorder()
	flood(t, rf, "held")
	c := consume(t, rf, "held", "g", got.handle, ringfence.ConsumeOptions{})
	eventually(t, "the group to process what retention has left", func() bool {
		d, err := rf.Admin().DescribeGroup(t.Context(), "g")
		return err == nil && len(d.Units) == 1 && len(d.Units[0].Positions) == 1 && d.Units[0].Positions[0].Checkpoint == 100
	})
	c.leave(t)
	to, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekEarliest, nil)
	must(t, err)
	retentionWorks(t, rf)
	if at := first(t, rf, "held"); at > to.Positions[0].Checkpoint {
		t.Fatalf("the topic begins at %d; its group was sent to %d and has not been there", at, to.Positions[0].Checkpoint)
	}
	_, err = rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekLatest, nil)
	must(t, err)
	eventually(t, "retention to drop what the group was sent past", func() bool {
		flood(t, rf, "held")
		return first(t, rf, "held") > to.Positions[0].Checkpoint
	})
}

func TestARefusedConsumerHoldsNothing(t *testing.T) {
	t.Parallel()
	rf := retained(t, "own", "foreign")
	got := newRecorder()
	produce(t, rf, "own", 0, 1, 1)
	c := consume(t, rf, "own", "g", got.handle, ringfence.ConsumeOptions{})
	got.waitFor(t, 1)
	c.leave(t)
	if err := rf.Consume(t.Context(), "foreign", "g", got.handle, nil); !errors.Is(err, ringfence.ErrExists) {
		t.Fatalf("consume of another topic: %v; expected ErrExists", err)
	}
	eventually(t, "retention to trim the foreign topic", func() bool {
		flood(t, rf, "foreign")
		return first(t, rf, "foreign") > 0
	})
}

// One damaged record must not hide the state of the group, nor keep anybody from seeking over it.
func TestDamageIsShownAndCanBeSoughtOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := ringfence.Config{Dir: dir}
	rf, err := ringfence.Open(t.Context(), cfg)
	must(t, err)
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 1, ID: "x"}))
	produce(t, rf, "orders", 0, 1, 1)
	got := newRecorder()
	c := consume(t, rf, "orders", "g", got.handle, ringfence.ConsumeOptions{})
	got.waitFor(t, 1)
	c.leave(t)
	_, err = rf.Produce(t.Context(), "orders", ringfence.Message{Value: []byte("damage-me")})
	must(t, err)
	produce(t, rf, "orders", 2, 3, 1)
	must(t, rf.Close())
	damage(t, filepath.Join(dir, "log", "topics", "orders..0.x", "0000000000000001.seg"), "damage-me")

	rf, err = ringfence.Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { must(t, rf.Close()) })
	info, err := rf.Admin().DescribeGroup(t.Context(), "g")
	must(t, err)
	if p := info.Units[0].Positions[0]; p.Checkpoint != 1 || p.Lag != 4 || !strings.Contains(p.Damaged, "seek") {
		t.Errorf("%+v; expected lag 4 and the damage at 1 with its remedy", p)
	}
	_, err = rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekOffset(2), nil)
	must(t, err)
	c = consume(t, rf, "orders", "g", got.handle, ringfence.ConsumeOptions{})
	got.waitFor(t, 4)
	c.leave(t)
}

// damage flips a bit in the place of a file where a text stands.
func damage(t *testing.T, name, text string) {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	i := bytes.Index(b, []byte(text))
	if i < 0 {
		t.Fatalf("%s does not hold %q", name, text)
	}
	b[i] ^= 1
	must(t, os.WriteFile(name, b, 0o600))
}

// What was dropped between a group's checkpoint and the first record that is kept is shown beside its lag. A group whose
// hold lies higher had processed it: then only the checkpoint went back.
func TestDescribeGroupCountsRecordsThatRetentionTook(t *testing.T) {
	t.Parallel()
	s := newStores()
	rf := s.open(t)
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 1}))
	produce(t, rf, "orders", 0, 3, 1)
	consumeAll(t, rf, 3)
	produce(t, rf, "orders", 3, 7, 1)
	st := raw(t, s, rf, "orders")
	must(t, st.Trim(t.Context(), 0, 8))
	for hold, want := range map[int64]int64{3: 5, 6: 2, 8: 0} {
		must(t, st.Hold(t.Context(), "ledger", []int64{hold}))
		g, err := rf.Admin().DescribeGroup(t.Context(), "ledger")
		must(t, err)
		if p := g.Units[0].Positions[0]; p.Dropped != want || g.Units[0].Dropped != want || g.Dropped != want || g.Lag != 2 {
			t.Errorf("of ten records three were processed, eight dropped, and the hold is at %d: %d dropped, lag %d (%+v); expected %d and 2", hold, g.Dropped, g.Lag, p, want)
		}
	}
}
