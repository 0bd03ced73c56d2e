package redisregistry

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// All that Redis pushes comes by one connection, the link: changed keys, calls of failure detectors, and
// the presence channel of this process, which carries no messages: its subscriber count shows other
// processes that this one lives. A lost link puts both in doubt. Watches then signal that anything may have
// changed, and sessions assume that other processes see this one as gone. A restored link checks the
// sessions at once. Handlers never block, because the link reads nothing else meanwhile.

// Pauses between two tries to make a lost link again; the first try is at once.
const (
	redialFirst = 5 * time.Millisecond
	redialMost  = 250 * time.Millisecond
	steady      = time.Second // a link that was up for so long resets the pause
)

// link is the connection for pushed messages. It lasts from the first watch or session until Close.
type link struct {
	s     *store
	first chan struct{} // closed when it was up for the first time
	stop  context.CancelFunc
	wg    sync.WaitGroup
}

func startLink(s *store) *link {
	ctx, stop := context.WithCancel(context.Background())
	l := &link{s: s, first: make(chan struct{}), stop: stop}
	l.wg.Go(func() { l.run(ctx) }) // joined by close
	return l
}

func (l *link) close() {
	l.stop()
	l.wg.Wait()
}

// run keeps the link up until ctx ends.
func (l *link) run(ctx context.Context) {
	wait := time.Duration(0)
	warned := false
	for before := false; ctx.Err() == nil; {
		began := time.Now()
		up, err := l.hold(ctx, before)
		l.s.seen.Lost()
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > steady {
			wait = 0
		}
		if up {
			before, warned = true, false
			l.s.log.Warn("the subscription of a registry was lost; connecting again", "error", err)
		} else if !warned {
			warned = true
			l.s.log.Warn("the subscription of a registry can't be had; trying again", "error", err)
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
		wait = min(max(redialFirst, 2*wait), redialMost)
	}
}

// hold makes the link once and keeps it until it is lost; up says that it was there.
func (l *link) hold(ctx context.Context, again bool) (up bool, err error) {
	s := l.s
	wire, release := s.client.Dedicate()
	defer release()
	defer wire.Close() // before it goes back to the pool, which then drops it
	calls, moved := make(chan string, 64), make(chan struct{})
	var once sync.Once
	lost := wire.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { s.heard(m, calls) },
		OnSubscription: func(sub rueidis.PubSubSubscription) {
			if sub.Kind == "sunsubscribe" { // by the server: the slot has moved to another node
				once.Do(func() { close(moved) })
			}
		},
	})
	if err := l.subscribe(ctx, wire); err != nil {
		return false, err
	}
	s.seen.Restored(s.seen.Age())
	if again {
		s.renewAll(ctx)
	} else {
		close(l.first)
	}
	s.watches.All() // changes during the outage were not heard
	w := newDetector(s, wire, again)
	return true, w.run(ctx, calls, lost, moved)
}

func (l *link) subscribe(ctx context.Context, wire rueidis.DedicatedClient) error {
	s := l.s
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	channels := []string{s.names.changes, s.names.detector, s.names.presence + s.process}
	return wire.Do(ctx, wire.B().Ssubscribe().Channel(channels...).Build()).Error()
}

// heard handles a message. It must not block: the link reads nothing else meanwhile.
func (s *store) heard(m rueidis.PubSubMessage, calls chan<- string) {
	switch m.Channel {
	case s.names.changes:
		if m.Message == "" {
			s.watches.All()
		} else {
			s.watches.Changed(strings.Split(m.Message, "\x00")...)
		}
	case s.names.detector:
		select {
		case calls <- m.Message:
		default: // the next call says the same
		}
	}
}

// shout publishes to the failure detectors of all processes and returns how many heard it.
func shout(ctx context.Context, s *store, wire rueidis.DedicatedClient, message string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	n, err := wire.Do(ctx, wire.B().Spublish().Channel(s.names.detector).Message(message).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("no answer on the link: %w", err)
	}
	return n, nil
}
