package e2e_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/pgregistry"
)

// neighbourhood is a topic that several groups consume.
type neighbourhood struct {
	t        *testing.T
	open     func() *ringfence.Client // another process
	rf       *ringfence.Client
	messages int
	stop     []*consumer
}

const neighbours, crowd = 4, 300 // partitions, messages

func settle(t *testing.T, open func() *ringfence.Client) *neighbourhood {
	t.Helper()
	n := &neighbourhood{t: t, open: open, rf: open(), messages: crowd}
	must(t, n.rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: neighbours}))
	produce(t, n.rf, "orders", 0, crowd, 20)
	return n
}

// join starts a member and waits until it is one.
func (n *neighbourhood) join(group string, h ringfence.Handler, o ringfence.ConsumeOptions) *consumer {
	n.t.Helper()
	joined := make(chan struct{}, 10)
	o.Events.Joined = func(string) { joined <- struct{}{} }
	c := consume(n.t, n.open(), "orders", group, h, o)
	n.stop = append(n.stop, c)
	select {
	case <-joined:
	case <-time.After(20 * time.Second):
		n.t.Fatalf("a member of group %s does not join", group)
	}
	return c
}

// leave ends all consumers.
func (n *neighbourhood) leave() {
	n.t.Helper()
	for _, c := range n.stop {
		c.leave(n.t)
	}
	n.stop = nil
}

// misbehave starts groups in which little works: one whose handlers don't come back until they are
// cancelled, and one whose handlers fail or panic for ever. Of each, members come and go.
func (n *neighbourhood) misbehave() {
	hurry := ringfence.ConsumeOptions{DrainTimeout: time.Millisecond, Retry: ringfence.Retry{Initial: time.Millisecond, Max: 5 * time.Millisecond}}
	slow := func(ctx context.Context, _ *ringfence.Message) error {
		<-ctx.Done()
		return ctx.Err()
	}
	poisoned := func(_ context.Context, m *ringfence.Message) error {
		if strings.HasSuffix(string(m.Key), "1") {
			panic("of this record, every time")
		}
		return errors.New("of this record, every time")
	}
	n.join("slow", slow, hurry)
	n.join("poisoned", poisoned, hurry)
	gone := []*consumer{n.join("slow", slow, hurry), n.join("poisoned", poisoned, hurry)}
	n.stop = n.stop[:len(n.stop)-len(gone)]
	for _, c := range gone {
		c.leave(n.t)
	}
}

// diary is what happened to the partitions of a member.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.lines...)
}

// events notes all that a healthy member should not hear of while nobody joins or leaves its group.
func (d *diary) events() ringfence.Events {
	return ringfence.Events{
		Revoked: func(u int, _ int64, why string) { d.note("unit %d revoked: %s", u, why) },
		Fenced:  func(u int, _ int64, why string) { d.note("unit %d fenced: %s", u, why) },
		Paused:  func(why string) { d.note("paused: %s", why) },
		Trouble: func(u int, what string, err error) { d.note("unit %d: %s: %v", u, what, err) },
	}
}

// prosper runs a group whose handlers take so long, until all is processed, checks that nothing
// disturbed it, and returns how long that took.
func (n *neighbourhood) prosper(group string, pace time.Duration) time.Duration {
	n.t.Helper()
	var d diary
	got := newRecorder()
	began := time.Now()
	c := n.join(group, func(ctx context.Context, m *ringfence.Message) error {
		<-time.After(pace)
		return got.handle(ctx, m)
	}, ringfence.ConsumeOptions{Concurrency: 4, Events: d.events()})
	got.waitFor(n.t, n.messages)
	took := time.Since(began)
	var g api.Group
	eventually(n.t, "the healthy group's checkpoints to reach the end", func() (ok bool) {
		var err error
		g, err = n.rf.Admin().DescribeGroup(n.t.Context(), group)
		return err == nil && g.Lag == 0
	})
	if lines := d.read(); len(lines) > 0 {
		n.t.Errorf("group %s was disturbed: %q", group, lines)
	}
	if got.count() != n.messages {
		n.t.Errorf("group %s handled %d messages; expected %d, each once", group, got.count(), n.messages)
	}
	for _, u := range g.Units {
		if p := u.Positions[0]; u.Why != "first owner" || !u.Alive || p.Checkpoint != p.Next || p.Done != 0 {
			n.t.Errorf("group %s, unit %d: epoch %d, alive %t, %+v; expected its first owner at the end", group, u.Unit, u.Epoch, u.Alive, p)
		}
	}
	n.stop = n.stop[:len(n.stop)-1]
	c.leave(n.t)
	return took
}

// stuck says that the others got nowhere, as was meant.
func (n *neighbourhood) stuck() {
	n.t.Helper()
	for _, name := range []string{"slow", "poisoned"} {
		g, err := n.rf.Admin().DescribeGroup(n.t.Context(), name)
		if err != nil || g.Lag != int64(n.messages) {
			n.t.Errorf("group %s has a lag of %d, %v; expected all of %d", name, g.Lag, err, n.messages)
		}
	}
}

// On a clock that stands still while processors work, a group that waits for another shows.
func TestAGroupIsAsFastBesideASlowAndAPoisonedOneAsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStores()
		n := settle(t, func() *ringfence.Client { return s.open(t) })
		const pace = 10 * time.Millisecond
		alone := n.prosper("alone", pace)
		n.misbehave()
		beside := n.prosper("beside", pace)
		if beside > alone+alone/20 {
			t.Errorf("the group took %s beside the others, and %s alone", beside, alone)
		}
		n.stuck()
		n.leave()
	})
}

func TestGroupsDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	for name, coordination := range map[string]func(t *testing.T, dir string) string{
		"directory":  func(_ *testing.T, dir string) string { return "file://" + dir },
		"PostgreSQL": func(t *testing.T, _ string) string { return testserver.URL(t, "postgres") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cfg := ringfence.Config{
				Dir: dir, Registry: coordination(t, dir), Durability: ringfence.OS, Namespace: "test-" + strings.ToLower(rand.Text()),
				Backends: []ringfence.Backend{{Scheme: "postgres", OpenRegistry: pgregistry.OpenURL}},
			}
			n := settle(t, func() *ringfence.Client {
				rf, err := ringfence.Open(t.Context(), cfg)
				must(t, err)
				t.Cleanup(func() { rf.Close() })
				return rf
			})
			alone := n.prosper("alone", time.Millisecond)
			n.misbehave()
			beside := n.prosper("beside", time.Millisecond)
			t.Logf("%s beside the others, %s alone", beside, alone)
			if limit := 10*time.Second + 10*alone; beside > limit { // a machine may stall
				t.Errorf("the group took %s beside the others, and %s alone", beside, alone)
			}
			n.stuck()
			n.leave()
		})
	}
}
