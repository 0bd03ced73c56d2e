package filelog

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/filelog/internal/page"
	"github.com/ringfence/ringfence/internal/vfs"
)

// The watcher looks every half second, whoever rings. What follows is about the time until then, so it judges the
// steps, and not what comes of them in the end.

// quietTwice is a topic that is open twice, as in two processes, and that nothing happens in.
func quietTwice(t *testing.T) (l *commitlog.Log, s, other *store) {
	t.Helper()
	mem := vfs.NewMem(1)
	c := Config{SegmentBytes: MinSegmentBytes}
	l, _ = madeTopic(t, mem.Process(), c, commitlog.TopicConfig{Partitions: 2})
	return l, storeOf(t, mem.Process(), c), storeOf(t, mem.Process(), c)
}

// asleep returns when a thread sleeps in the kernel on the bell of p, and what tells that it was woken.
func asleep(t *testing.T, p *page.Page) <-chan struct{} {
	t.Helper()
	thread, woken, old := make(chan int, 1), make(chan struct{}), p.Bell()
	go func() { // joined by who reads woken
		runtime.LockOSThread()
		thread <- unix.Gettid()
		p.Wait(old, time.Minute)
		close(woken)
	}()
	stat := fmt.Sprintf("/proc/self/task/%d/syscall", <-thread)
	for end := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		b, err := os.ReadFile(stat)
		if call := strings.Fields(string(b)); len(call) > 2 && call[0] == fmt.Sprint(unix.SYS_FUTEX) && call[2] == "0x0" { // between processes
			return woken
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("the thread does not sleep: %q, %v", b, err)
		}
	}
}

func wakes(t *testing.T, p *page.Page, what string, ring func()) {
	t.Helper()
	woken := asleep(t, p)
	ring()
	select {
	case <-woken:
	case <-time.After(20 * time.Second):
		t.Errorf("%s wakes nobody", what)
		p.Wake()
		<-woken
	}
}

func TestEverySleeperOfAnotherProcessIsRungFor(t *testing.T) {
	t.Parallel()
	_, s, other := quietTwice(t)
	other.page.Count(1)
	wakes(t, other.page, "a record", s.watch.ring)
	s.watch.count(1) // one of this process, too
	wakes(t, other.page, "a record, with a watcher of this process", s.watch.ring)
	s.watch.count(^uint32(0))
	other.page.Count(^uint32(0))
	if n := s.page.Sleepers(); n != 0 {
		t.Errorf("%d sleep", n)
	}
	wakes(t, other.page, "the end of the watcher", s.watch.interrupt)
}

// A nap among the idlers has no end of its own: it ends when nobody waits, and when a writer has died before it could sync.
func TestALongNapEndsWhenNobodyWaitsAndForWhatNobodySyncs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ waits, forsaken bool }{"nobody waits": {false, false}, "nobody syncs": {true, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s, _ := quietTwice(t)
			s.c.idlers = &page.Idlers{Look: time.Millisecond}
			if c.waits {
				ch, err := s.view.register(0, 0)
				if err != nil || ch == nil {
					t.Fatalf("nothing to wait for: %v", err)
				}
				defer s.view.unregister(0, ch)
			}
			up := make(chan struct{})
			go func() { // joined below
				s.watch.nap(s.page.Bell(), true, func() bool { return c.forsaken })
				close(up)
			}()
			select {
			case <-up:
			case <-time.After(20 * time.Second):
				t.Error("it sleeps on")
				s.watch.interrupt()
				<-up
			}
			s.c.idlers.Join()
		})
	}
}

// A record that comes as somebody registers was rung for too early for that. Here it comes from another process,
// and nobody watches.
func TestWhoRegistersAsARecordComesIsToldOfIt(t *testing.T) {
	t.Parallel()
	l, s, _ := quietTwice(t)
	ch, err := s.view.register(0, 0)
	if err != nil || ch == nil {
		t.Fatalf("nothing to wait for: %v", err)
	}
	topic, err := l.Topic(t.Context(), "t")
	if err == nil {
		_, err = topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("came")}}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.lookAgain()
	select {
	case <-ch:
	default:
		t.Error("the record is there, and who waits for it is not woken")
		s.view.unregister(0, ch)
	}
}
