package redisregistry

import (
	"context"
	"sync"
	"testing"
	"time"
)

// Whoever may publish on a server, in whatever database, may say anything on the lookout. A death is
// noticed all the same, long before the session would expire.
func TestAStrangerOnTheLookoutSilencesNobody(t *testing.T) {
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
		for ctx.Err() == nil {
			for _, m := range []string{"call ! 0", "call ----------- 3600000", "call ----------0 1000000"} {
				_ = stranger.client.Do(ctx, stranger.client.B().Spublish().Channel(s.names.lookout).Message(m).Build()).Error()
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	defer shouting.Wait()
	defer stop()
	dead.shut(false)
	wait, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	for sessions(t, s) != 1 {
		if wait.Err() != nil {
			t.Fatal("while a stranger calls, nobody notices a death")
		}
		time.Sleep(20 * time.Millisecond)
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
