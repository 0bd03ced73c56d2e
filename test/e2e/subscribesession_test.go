package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

const many = 30 // subscriptions

// TestProcessOfManySubscriptions is no test but the body of the processes of the one below.
func TestProcessOfManySubscriptions(t *testing.T) {
	dir := os.Getenv(processDir)
	if dir == "" {
		return // an ordinary run
	}
	rf := openDir(t, ringfence.Config{Dir: dir})
	seen, err := os.OpenFile(filepath.Join(filepath.Dir(dir), "seen"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			name := fmt.Sprint("s", i)
			err := rf.Subscribe(t.Context(), name, func(_ context.Context, m *ringfence.Message) error {
				_, err := fmt.Fprintf(seen, "%d %s %d %s\n", os.Getpid(), name, m.Partition, m.Value)
				return err
			}, nil)
			t.Error(name, err) // it is killed before that
		})
	}
	wg.Wait()
}

// Two processes share thirty subscriptions, under one session each. One is killed: the other has all of them
// long before a session of five seconds could run out.
func TestSubscriptionsOfAKilledProcessAreAllTakenOver(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	seen := filepath.Join(filepath.Dir(dir), "seen")
	must(t, os.WriteFile(seen, nil, 0o600))
	rf := openDir(t, ringfence.Config{Dir: dir})
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 2}))
	for i := range many {
		_, err := rf.Admin().CreateSubscription(t.Context(), fmt.Sprint("s", i), admin.SubscriptionConfig{Topic: "payments"})
		must(t, err)
	}
	start := func() *exec.Cmd {
		cmd := spawn(t, "TestProcessOfManySubscriptions", dir)
		must(t, cmd.Start())
		return cmd
	}
	a, b := start(), start()
	defer func() { _ = b.Process.Kill(); _ = b.Wait() }()
	shared := func() bool {
		groups, err := rf.Admin().ListGroups(t.Context())
		if err != nil || len(groups) < many {
			return false
		}
		for _, g := range groups {
			d, err := rf.Admin().DescribeGroup(t.Context(), g.Name)
			if err != nil || len(d.Members) != 2 || len(d.Units) != 2 || d.Units[0].Owner == "" || d.Units[1].Owner == "" || d.Units[0].Owner == d.Units[1].Owner {
				return false
			}
		}
		return true
	}
	eventually(t, "both to have a unit of each subscription", shared)
	if n := sessionsOf(t, rf); n != 2 {
		t.Errorf("two processes are in their groups under %d sessions; want 2", n)
	}
	must(t, a.Process.Kill())
	died := time.Now()
	_ = a.Wait() // killed is no news
	for i := range 64 {
		_, err := rf.Produce(t.Context(), "payments", ringfence.Message{Key: []byte(fmt.Sprint(i)), Value: fmt.Append(nil, i)})
		must(t, err)
	}
	eventually(t, "the other to deliver all of all", func() bool {
		raw, err := os.ReadFile(seen)
		return err == nil && strings.Count(string(raw), "\n") >= 64*many
	})
	t.Logf("%d subscriptions were taken over, and all delivered, in %s", many, time.Since(died).Round(time.Millisecond))
	raw, err := os.ReadFile(seen)
	must(t, err)
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, fmt.Sprint(b.Process.Pid, " ")) {
			t.Fatalf("%q was delivered by the process that was killed, before there was anything", line)
		}
	}
	if n := sessionsOf(t, rf); n != 1 {
		t.Errorf("%d sessions after one of two processes was killed; want 1", n)
	}
}

// sessionsOf counts the sessions under which members are in groups.
func sessionsOf(t *testing.T, rf *ringfence.Client) int {
	t.Helper()
	snap, err := rf.Registry().List(t.Context(), "groups/")
	must(t, err)
	ids := map[string]bool{}
	for _, e := range snap.Entries {
		if e.Session != "" {
			ids[e.Session] = true
		}
	}
	return len(ids)
}
