package redisregistry

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// Whoever may publish on a server, in whatever database, may say anything among the failure detectors. A death is
// noticed all the same, long before the session would expire.
func TestAStrangerOnTheDetectorsChannelSilencesNobody(t *testing.T) {
	t.Parallel()
	cfg := server(t)
	s, dead, stranger := mustOpen(t, cfg), mustOpen(t, cfg), mustOpen(t, cfg)
	for _, x := range []*store{s, dead} {
		if _, err := x.OpenSession(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var shouting sync.WaitGroup
	shouting.Go(func() {
		pause := time.NewTicker(10 * time.Millisecond)
		defer pause.Stop()
		for ctx.Err() == nil {
			for _, m := range []string{"call ! 0", "call ----------- 3600000", "call ----------0 1000000"} {
				_ = stranger.client.Do(ctx, stranger.client.B().Spublish().Channel(s.names.detector).Message(m).Build()).Error()
			}
			<-pause.C
		}
	})
	defer shouting.Wait()
	defer stop()
	dead.shut(false)
	eventually(t, "a death is noticed while a stranger calls", func() error {
		if n := sessions(t, s); n != 1 {
			return fmt.Errorf("%d sessions", n)
		}
		return nil
	})
}

// The pause that a call wishes for is clamped to what processes that are not alone can need.
func TestACallWishesAndNoMore(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{-time.Hour, 0, time.Second, time.Hour, 1<<63 - 1} {
		if d := new(detector).follow(pause); d < missed*busyPause || d > (missed+1)*idlePause {
			t.Errorf("after a call that announces the next in %s the wait is %s", pause, d)
		}
	}
}

// sessions is how many the store has.
func sessions(t *testing.T, s *store) int64 {
	t.Helper()
	n, err := s.client.Do(t.Context(), s.client.B().Scard().Key(s.names.keys[4]).Build()).AsInt64()
	if err != nil {
		return -1 // it is asked again
	}
	return n
}
