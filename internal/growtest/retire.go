// Package growtest tests what becomes of a topic that grows, on any pair of stores: those of a module of
// their own too.
package growtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

const (
	name   = "a"
	keys   = 10
	rounds = 4
)

// system is a topic with its users.
type system struct {
	testing.TB
	rf *ringfence.Client

	retired bool // the first storage topic was
	sent    int  // of each key
	mu      sync.Mutex
	seen    map[string]int // of each key, by the group
}

// Retire lets a topic of some stores grow, drops what is in its first storage topic, and retires that. All
// records come in order and once, before and after, also those of a producer that slept through it.
func Retire(t testing.TB, c ringfence.Config) {
	s := &system{TB: t, rf: open(t, c), seen: map[string]int{}}
	sleeper := open(t, c)
	s.must(s.rf.EnsureTopic(t.Context(), name, ringfence.TopicConfig{Partitions: 2}))
	s.send(sleeper)
	s.consume()
	_, err := s.rf.Admin().AddStorage(t.Context(), name, 3)
	s.must(err)
	_, err = s.rf.Admin().SwitchProduce(t.Context(), name)
	s.must(err)
	s.send(s.rf)
	s.consume()

	r, err := s.rf.Admin().RetireStorage(t.Context(), name, &admin.RetireStorageOptions{DryRun: true})
	s.must(err)
	if len(r.Retired) > 0 || len(r.Kept) != 1 || !strings.Contains(r.Kept[0].Why, "keeps records") {
		t.Errorf("while records are kept: %+v", r)
	}
	info, err := s.rf.Admin().DescribeTopic(t.Context(), name)
	s.must(err)
	s.drop(&info.Storage[0])
	s.await("retirement", func() (string, bool) {
		r, err := s.rf.Admin().RetireStorage(t.Context(), name, nil)
		return fmt.Sprintf("%+v, %v", r, err), err == nil && len(r.Retired) == 1
	})
	s.await("the log's list without it", func() (string, bool) {
		all, err := s.rf.Log().Topics(t.Context())
		left := false
		for _, st := range all {
			left = left || st.Name == info.Storage[0].Name
		}
		return fmt.Sprintf("%v, %v", all, err), err == nil && !left
	})
	s.forgotten()

	s.retired = true
	s.send(sleeper)
	s.consume()
	if info, err = sleeper.Admin().DescribeTopic(t.Context(), name); err != nil || !info.Storage[0].Retired() || info.Produce != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	s.must(s.rf.Admin().DeleteTopic(t.Context(), name, &admin.DeleteTopicOptions{Force: true}))
}

func open(t testing.TB, c ringfence.Config) *ringfence.Client {
	rf, err := ringfence.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rf.Close(); err != nil {
			t.Error(err)
		}
	})
	return rf
}

func (s *system) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// await waits for something, however slow the machine is.
func (s *system) await(what string, done func() (string, bool)) {
	s.Helper()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		now, ok := done()
		if ok {
			return
		}
		if time.Now().After(limit) {
			s.Fatalf("no %s within a minute: %s", what, now)
		}
	}
}

// send produces numbers to each key.
func (s *system) send(rf *ringfence.Client) {
	s.Helper()
	for range rounds {
		for k := range keys {
			m := ringfence.Message{Key: fmt.Append(nil, k), Value: strconv.AppendInt(nil, int64(s.sent), 10)}
			_, err := rf.Produce(s.Context(), name, m)
			if s.retired && errors.Is(err, ringfence.ErrUnknown) { // Pulsar does not say why it has hung up
				_, err = rf.Produce(s.Context(), name, m)
			}
			s.must(err)
		}
		s.sent++
	}
}

// consume lets a group have all that was sent, and stops when its progress is stored.
func (s *system) consume() {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() { done <- s.rf.Consume(ctx, name, "g", s.handle, nil) }() // received below
	s.await("group at the end", func() (string, bool) {
		g, err := s.rf.Admin().DescribeGroup(s.Context(), "g")
		s.mu.Lock()
		defer s.mu.Unlock()
		all := err == nil && g.Lag == 0 && len(s.seen) == keys
		for _, n := range s.seen {
			all = all && n == s.sent
		}
		for _, u := range g.Units { // the end of a sealed partition may lie behind its last record
			all = all && (u.Positions[0].Storage == 1 || s.sent == rounds || u.Phase == "finished")
		}
		return fmt.Sprintf("%v of %d, %+v, %v", s.seen, s.sent, g.Units, err), all
	})
	stop()
	s.must(<-done)
}

func (s *system) handle(_ context.Context, m *ringfence.Message) error {
	n, err := strconv.Atoi(string(m.Value))
	s.mu.Lock()
	defer s.mu.Unlock()
	key := string(m.Key)
	if n != s.seen[key] {
		s.Errorf("key %s: record %d in storage topic %d; expected %d", key, n, m.Storage, s.seen[key])
	}
	s.seen[key] = n + 1
	return err
}

// drop does what retention would.
func (s *system) drop(info *api.StorageTopic) {
	s.Helper()
	st, err := s.rf.Log().Topic(s.Context(), info.Name)
	s.must(err)
	for p := range info.Partitions {
		b, err := st.Bounds(s.Context(), p)
		s.must(err)
		s.must(st.Trim(s.Context(), p, b.Next))
	}
	s.must(st.Close())
}

// forgotten looks whether the registry knows nothing of the first storage topic's units.
func (s *system) forgotten() {
	s.Helper()
	for _, prefix := range []string{"groups/g/owners/", "checkpoints/g/"} {
		snap, err := s.rf.Registry().List(s.Context(), prefix)
		s.must(err)
		for _, e := range snap.Entries {
			if unit := strings.TrimPrefix(e.Key, prefix); unit < "00000002" {
				s.Errorf("the registry has %s", e.Key)
			}
		}
		if len(snap.Entries) == 0 {
			s.Errorf("the registry has nothing at %s", prefix)
		}
	}
}
