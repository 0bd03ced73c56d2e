package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	registrypkg "github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
)

func TestMembersShareATopicWithoutLossDuplicateOrDisorder(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 8)
	got := newRecorder()
	a := consume(t, rf, "orders", "g", got.handle, ringfence.ConsumeOptions{Member: "a"})
	produce(t, rf, "orders", 0, 500, 20)
	b := consume(t, s.open(t), "orders", "g", got.handle, ringfence.ConsumeOptions{Member: "b"})
	produce(t, rf, "orders", 500, 500, 20)
	c := consume(t, s.open(t), "orders", "g", got.handle, ringfence.ConsumeOptions{Member: "c"})
	produce(t, rf, "orders", 1000, 500, 20)
	a.leave(t)
	produce(t, rf, "orders", 1500, 500, 20)
	got.waitFor(t, 2000)
	b.leave(t)
	c.leave(t)
	if got.count() != 2000 {
		t.Fatalf("%d messages were handled; expected 2000, none of them twice", got.count())
	}
	for k := range 20 {
		var want []string
		for i := k; i < 2000; i += 20 {
			want = append(want, fmt.Sprint(i))
		}
		if key := fmt.Sprintf("k%d", k); !slices.Equal(got.byKey[key], want) {
			t.Errorf("key %s was handled as %v", key, got.byKey[key])
		}
	}
}

func TestAGroupGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	_, rf := newTopic(t, 2)
	produce(t, rf, "orders", 0, 10, 3)
	first := newRecorder()
	c := consume(t, rf, "orders", "g", first.handle, ringfence.ConsumeOptions{})
	first.waitFor(t, 10)
	c.leave(t)
	produce(t, rf, "orders", 10, 5, 3)
	second := newRecorder()
	c = consume(t, rf, "orders", "g", second.handle, ringfence.ConsumeOptions{})
	second.waitFor(t, 5)
	c.leave(t)
	if second.count() != 5 {
		t.Errorf("%d messages after the restart; expected the 5 new ones", second.count())
	}
}

func TestLatestIsWhereTheGroupWasMadeNotWhereItIsRestarted(t *testing.T) {
	t.Parallel()
	_, rf := newTopic(t, 1)
	produce(t, rf, "orders", 0, 10, 3)
	assigned := make(chan struct{}, 1)
	got := newRecorder()
	opts := ringfence.ConsumeOptions{From: ringfence.Latest, CommitInterval: time.Hour}
	opts.Events.Assigned = func(int, int64, string, string) { assigned <- struct{}{} }
	c := consume(t, rf, "orders", "g", got.handle, opts)
	<-assigned
	eventually(t, "the start to be stored", func() bool {
		info, err := rf.Admin().DescribeGroup(t.Context(), "g")
		return err == nil && info.Units[0].Positions[0].Checkpoint == 10
	})
	c.leave(t)
	produce(t, rf, "orders", 10, 5, 3) // while nobody runs
	opts.Events.Assigned = nil
	c = consume(t, rf, "orders", "g", got.handle, opts)
	got.waitFor(t, 5)
	c.leave(t)
}

func TestSeekSendsALiveGroupBack(t *testing.T) {
	t.Parallel()
	_, rf := newTopic(t, 4)
	produce(t, rf, "orders", 0, 40, 8)
	got := newRecorder()
	c := consume(t, rf, "orders", "g", got.handle, ringfence.ConsumeOptions{})
	got.waitFor(t, 40)
	_, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekEarliest, nil)
	must(t, err)
	got.waitFor(t, 80)
	c.leave(t)
	if _, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekOffset(1000), nil); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("seek past the end: %v; expected ErrInvalid", err)
	}
}

func TestPauseStopsIntakeUntilResume(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, rf := newTopic(t, 2)
		got := newRecorder()
		c := consume(t, rf, "orders", "g", got.handle, ringfence.ConsumeOptions{})
		produce(t, rf, "orders", 0, 10, 3)
		got.waitFor(t, 10)
		must(t, rf.Admin().PauseGroup(t.Context(), "g", nil))
		synctest.Wait() // the pause is where it has to be
		produce(t, rf, "orders", 10, 10, 3)
		time.Sleep(time.Minute)
		info, err := rf.Admin().DescribeGroup(t.Context(), "g")
		must(t, err)
		if got.count() != 10 || info.Lag != 10 || !info.Paused {
			t.Errorf("%d messages were handled, lag %d, paused %t; expected 10, 10 and true", got.count(), info.Lag, info.Paused)
		}
		must(t, rf.Admin().ResumeGroup(t.Context(), "g", nil))
		got.waitFor(t, 20)
		c.leave(t)
	})
}

func TestLagAndAgeNeedNoLiveMember(t *testing.T) {
	t.Parallel()
	_, rf := newTopic(t, 2)
	got := newRecorder()
	c := consume(t, rf, "orders", "g", got.handle, ringfence.ConsumeOptions{})
	produce(t, rf, "orders", 0, 10, 3)
	got.waitFor(t, 10)
	c.leave(t)
	old := time.Now().Add(-time.Hour)
	_, err := rf.Produce(t.Context(), "orders", ringfence.Message{Key: []byte("x"), Timestamp: old})
	must(t, err)
	info, err := rf.Admin().DescribeGroup(t.Context(), "g")
	must(t, err)
	if info.Lag != 1 || len(info.Members) != 0 {
		t.Errorf("lag %d with %d members; expected 1 with none", info.Lag, len(info.Members))
	}
	if age := time.Duration(info.OldestMS) * time.Millisecond; age < time.Hour || age > 2*time.Hour {
		t.Errorf("the oldest unprocessed record is %s old; expected an hour", age)
	}
}

func TestATopicInUseIsNotDeletedByAccident(t *testing.T) {
	t.Parallel()
	_, rf := newTopic(t, 2)
	got := newRecorder()
	c := consume(t, rf, "orders", "g", got.handle, ringfence.ConsumeOptions{})
	produce(t, rf, "orders", 0, 2, 1)
	got.waitFor(t, 2)
	c.leave(t)
	err := rf.Admin().DeleteTopic(t.Context(), "orders", nil)
	if !errors.Is(err, ringfence.ErrConflict) || !strings.Contains(err.Error(), "g") {
		t.Fatalf("delete: %v; expected ErrConflict that names the group", err)
	}
	must(t, rf.Admin().DeleteTopic(t.Context(), "orders", &admin.DeleteTopicOptions{Force: true}))
	if _, err := rf.Admin().DescribeTopic(t.Context(), "orders"); !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("describe after delete: %v; expected ErrNotFound", err)
	}
	if _, err := rf.Produce(t.Context(), "orders", ringfence.Message{}); !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("produce after delete: %v; expected ErrNotFound", err)
	}
}

func TestConfigReportsAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	err := ringfence.Config{Log: "ftp://h", Registry: "nonsense", Durability: "maybe", Namespace: "a/b"}.Validate()
	if !errors.Is(err, ringfence.ErrInvalid) {
		t.Fatalf("%v; expected ErrInvalid", err)
	}
	for _, want := range []string{"ftp", "nonsense", "maybe", "a/b"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %q", err, want)
		}
	}
	if err := (ringfence.Config{Log: "bad://user:secret@h"}).Validate(); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v; expected an error without the password", err)
	}
}

func TestBadProducesAreRefused(t *testing.T) {
	t.Parallel()
	_, rf := newTopic(t, 2)
	ctx := t.Context()
	if _, err := rf.Produce(ctx, "nowhere", ringfence.Message{}); !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("unknown topic: %v", err)
	}
	if _, err := rf.Produce(ctx, "orders", ringfence.Message{Value: make([]byte, 9<<20)}); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("a record of 9 MiB: %v", err)
	}
	two := 2
	done := make(chan error, 1)
	rf.ProduceAsync(ctx, "orders", ringfence.Message{}, &ringfence.ProduceOptions{Partition: &two}, func(_ ringfence.Position, err error) { done <- err })
	if err := <-done; !errors.Is(err, ringfence.ErrInvalid) || !strings.Contains(err.Error(), "0 to 1") {
		t.Errorf("partition 2 of 2: %v", err)
	}
	for _, name := range []string{"", "a..b", "../x", "a/b", "a\x00b", strings.Repeat("n", 300)} {
		if err := rf.EnsureTopic(ctx, name, ringfence.TopicConfig{Partitions: 1}); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("topic %.10q: %v; expected ErrInvalid", name, err)
		}
	}
	if err := rf.EnsureTopic(ctx, "orders", ringfence.TopicConfig{Partitions: 3}); !errors.Is(err, ringfence.ErrExists) {
		t.Errorf("other partitions: %v; expected ErrExists", err)
	}
}

func TestTheNewestStartOfAMemberWins(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 2)
	joined := make(chan struct{}, 1)
	opts := ringfence.ConsumeOptions{Member: "m"}
	opts.Events.Joined = func(string) { joined <- struct{}{} }
	old := consume(t, rf, "orders", "g", newRecorder().handle, opts)
	<-joined
	got := newRecorder()
	opts.Events.Joined = nil
	next := consume(t, s.open(t), "orders", "g", got.handle, opts)
	if err := <-old.done; !errors.Is(err, ringfence.ErrFenced) {
		t.Errorf("the older start ended with %v; expected ErrFenced", err)
	}
	produce(t, rf, "orders", 0, 4, 4)
	got.waitFor(t, 4)
	next.leave(t)
}

func TestErrorsOfOpenShowNoSecret(t *testing.T) {
	t.Parallel()
	for _, registry := range []string{
		"x://me:hunter2@host/db", "x://host/db?user=me&password=hunter2", "x://:hunter2@h:p:q", "x://me:hunter2%zz@host/", "x:me:hunter2@host", "me:hunter2@host", "x//me:hunter2@host/db",
	} {
		refuse := func(context.Context, *url.URL, registrydriver.Options) (*registrypkg.Registry, error) {
			return nil, ringfence.ErrUnavailable
		}
		_, err := ringfence.Open(t.Context(), ringfence.Config{
			Dir: t.TempDir(), Registry: registry, Backends: []ringfence.Backend{{Scheme: "x", OpenRegistry: refuse}},
		})
		if err == nil || strings.Contains(err.Error(), "hunter") || strings.Contains(err.Error(), ":h") {
			t.Errorf("registry %s: error %v", registry, err)
		}
	}
}
