package e2e_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/group/protocol"
)

// TestHolderProcess is no test but the body of the process of the one below.
func TestHolderProcess(t *testing.T) {
	dir := os.Getenv(processDir)
	if dir == "" {
		return // an ordinary run
	}
	rf := openDir(t, ringfence.Config{Dir: dir})
	err := rf.Subscribe(t.Context(), "billing", func(ctx context.Context, m *ringfence.Message) error {
		if m.Attempt == 4 {
			<-ctx.Done()
		}
		return errors.New("not yet")
	}, &ringfence.SubscribeOptions{SessionTTL: time.Second})
	t.Fatal(err) // it is killed before that
}

// A record that is held and was never parked has as many attempts as the policy says, whoever dies over it.
func TestAttemptsAtAHeldRecordSurviveACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rf := openDir(t, ringfence.Config{Dir: dir})
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 1}))
	info, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{
		Topic: "orders", Retry: admin.Retry{Initial: time.Millisecond, Max: time.Millisecond, Attempts: 5}, Hold: 24 * time.Hour,
	})
	must(t, err)
	before := time.Now().Truncate(time.Millisecond)
	produce(t, rf, "orders", 0, 1, 1)

	cmd := spawn(t, "TestHolderProcess", dir)
	must(t, cmd.Start())
	g, err := protocol.NewGroup(rf.Registry(), info.Group())
	must(t, err)
	eventually(t, "a checkpoint with three attempts", func() bool {
		u, err := g.Unit(t.Context(), 0)
		must(t, err)
		if u.Checkpoint == nil || len(u.Checkpoint.Positions) == 0 {
			return false
		}
		failing := u.Checkpoint.Positions[0].Failing
		return len(failing) == 1 && failing[0].Attempts == 3
	})
	failed := time.Now()
	kill(t, cmd)

	var d delivered
	subscribe(t, rf, "billing", d.handler(func(*ringfence.Message) error { return errors.New("never") }))
	var letters []api.DeadLetter
	eventually(t, "the dead letter", func() bool {
		letters, err = rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		must(t, err)
		return len(letters) == 1
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := letters[0]; l.Attempts != 5 || l.FailedAt < api.TimeOf(before) || l.FailedAt > api.TimeOf(failed) || d.tries["0"] != 2 {
		t.Errorf("%d more attempts, then %+v; expected 2, and one since %s to %s", d.tries["0"], l, before, failed)
	}
}
