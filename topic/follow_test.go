package topic_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// openHook calls a function after a storage topic was opened.
type openHook struct {
	driver.Log
	opened func(name string)
}

func (l *openHook) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	l.opened(name)
	return t, err
}

// Of two refreshes at once the one that read the older definition may come first. The other one must
// not leave it at that: its reader's hint is used up.
func TestARefreshThatLosesARaceIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, reg := memlog.NewStore(nil), memregistry.NewStore().Open().Registry
		l := &openHook{Log: store.Driver(), opened: func(string) {}}
		c := topic.NewCatalog(store.Open(), reg, "")
		create(t, c, "a", topic.Config{Partitions: 2})
		tp := open(t, topic.NewCatalog(commitlog.New(l), reg, ""), "a")
		var first atomic.Bool
		started, both, adopted := make(chan struct{}), make(chan struct{}), make(chan struct{})
		l.opened = func(name string) {
			switch {
			case topic.IsStorage(name, "a..1") && first.CompareAndSwap(false, true): // has read one addition, and waits
				close(started)
				<-both
			case topic.IsStorage(name, "a..2") && !closed(both): // has read both: the other one overtakes it
				close(both)
				<-adopted
			}
		}
		add := func() {
			_, err := c.AddStorage(t.Context(), "a", 2)
			must(t, err)
		}
		add()
		refreshed := make(chan error, 1)
		go func() { refreshed <- tp.Refresh(t.Context()) }() // received below
		<-started
		add()
		go func() { // ends when the first has put its view in place
			defer close(adopted)
			for tp.Units() == 2 {
				<-time.After(time.Millisecond)
			}
		}()
		must(t, tp.Refresh(t.Context()))
		if tp.Units() != 6 {
			t.Errorf("a refresh that began when there were 6 units leaves the view at %d", tp.Units())
		}
		if err := <-refreshed; err != nil {
			t.Error(err)
		}
	})
}

// A follower that can't read the definition says so once, and once when it can again.
func TestAFollowerSaysThatItHearsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		create(t, s.catalog, "a", topic.Config{Partitions: 2})
		tp := open(t, s.catalog, "a")
		said := make(lines, 100)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		heard := make(chan int, 100)
		all.Go(func() { // joined below
			tp.Follow(ctx, slog.New(slog.NewTextHandler(said, nil)), func() { heard <- tp.Units() })
		})
		<-heard
		s.edit(t, "a", `"format":1`, `"format":9`)
		if line := <-said; !strings.Contains(line, "level=WARN") || !strings.Contains(line, "format 9") {
			t.Errorf("said %s", line)
		}
		<-time.After(1200 * time.Millisecond) // it has tried again
		s.edit(t, "a", `"format":9`, `"format":1`)
		if line := <-said; !strings.Contains(line, "level=INFO") {
			t.Errorf("said %s", line)
		}
		cancel()
		all.Wait()
	})
}

// lines is a writer of log lines.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
