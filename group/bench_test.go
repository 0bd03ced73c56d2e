package group_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// stage is a group in real time whose workers do nothing but say when they begin and end.
type stage struct {
	store *memregistry.Store
	mu    sync.Mutex
	ended map[int]time.Time
	begun chan begun
}

type begun struct {
	unit   int
	member string
	at     time.Time
	ended  time.Time // of the worker before, on whatever member
}

func newStage() *stage {
	return &stage{store: memregistry.NewStore(), ended: map[int]time.Time{}, begun: make(chan begun, 1024)}
}

// join starts a member and returns how to stop and how to kill it.
func (s *stage) join(name string, units int) (stop func() error, kill func()) {
	h := s.store.Open()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { // joined by stop and kill
		done <- group.Run(ctx, group.Config{
			Registry: h.Registry, Group: "g", Topic: "t", Units: units, Member: name,
		}, group.WorkerFunc(func(ctx context.Context, u *group.Unit) error {
			now := time.Now()
			s.mu.Lock()
			s.begun <- begun{unit: u.Number(), member: name, at: now, ended: s.ended[u.Number()]}
			s.mu.Unlock()
			u.Track(func() group.Progress {
				return group.Progress{Positions: []registry.Position{{Partition: u.Number(), Next: now.UnixNano()}}}
			})
			select {
			case <-ctx.Done():
			case <-u.Draining():
			}
			s.mu.Lock()
			s.ended[u.Number()] = time.Now()
			s.mu.Unlock()
			return nil
		}))
	}()
	stop = func() error { cancel(); return <-done }
	kill = func() { h.Kill(); cancel(); <-done }
	return stop, kill
}

// wait returns the next n starts of workers.
func (s *stage) wait(n int) []begun {
	out := make([]begun, n)
	for i := range out {
		out[i] = <-s.begun
	}
	return out
}

// BenchmarkTakeover measures from the death of a member, as the registry notices it, to the start
// of the workers of its units elsewhere.
func BenchmarkTakeover(b *testing.B) {
	var worst time.Duration
	for b.Loop() {
		b.StopTimer()
		s := newStage()
		stopA, _ := s.join("a", 8)
		s.wait(8)
		_, killB := s.join("b", 8)
		s.wait(4)
		b.StartTimer()
		began := time.Now()
		go killB() // its workers end when they learn of it; nobody waits for them
		for _, w := range s.wait(4) {
			worst = max(worst, w.at.Sub(began))
		}
		b.StopTimer()
		_ = stopA()
		b.StartTimer()
	}
	b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
}

// BenchmarkHandoff measures the pause of a unit that moves: from the end of its worker to the
// start of the next one.
func BenchmarkHandoff(b *testing.B) {
	s := newStage()
	stopA, _ := s.join("a", 8)
	s.wait(8)
	var sum, worst time.Duration
	moves := 0
	for b.Loop() {
		stopB, _ := s.join("b", 8)
		got := s.wait(4)
		if err := stopB(); err != nil {
			b.Fatal(err)
		}
		for _, w := range append(got, s.wait(4)...) {
			pause := w.at.Sub(w.ended)
			sum, worst, moves = sum+pause, max(worst, pause), moves+1
		}
	}
	_ = stopA()
	b.ReportMetric(float64(sum.Microseconds())/1000/float64(moves), "mean-ms/move")
	b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
}
