package registrytest

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

func oneWinner(s *suite) {
	procs := []*Process{s.open(), s.open(), s.open()}
	for round := range 10 {
		k := key(round)
		var wins atomic.Int32
		var wg sync.WaitGroup
		for i := range 9 {
			wg.Go(func() {
				_, err := procs[i%3].Txn(s.ctx(), registry.Txn{Checks: []registry.Check{{Key: k}}, Puts: []registry.Put{{Key: k, Value: []byte(strconv.Itoa(i))}}})
				switch {
				case err == nil:
					wins.Add(1)
				case !errors.Is(err, registry.ErrConflict):
					s.Error(err)
				}
			})
		}
		wg.Wait()
		if wins.Load() != 1 {
			s.Fatalf("%d writers created %q, expected 1", wins.Load(), k)
		}
	}
}

// increment adds one to a counter by compare-and-set.
func increment(s *suite, p *Process, k string) error {
	for {
		e, err := p.Get(s.ctx(), k)
		if err != nil && !errors.Is(err, registry.ErrNotFound) {
			return err
		}
		n, _ := strconv.Atoi(string(e.Value))
		_, err = p.Txn(s.ctx(), registry.Txn{
			Checks: []registry.Check{{Key: k, Version: e.Version}},
			Puts:   []registry.Put{{Key: k, Value: []byte(strconv.Itoa(n + 1))}},
		})
		if !errors.Is(err, registry.ErrConflict) {
			return err
		}
	}
}

func counters(s *suite) {
	const each = 20
	procs := []*Process{s.open(), s.open(), s.open()}
	var wg sync.WaitGroup
	for _, p := range procs {
		for range 2 {
			wg.Go(func() {
				for range each {
					if err := increment(s, p, "counter"); err != nil {
						s.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	if got, want := s.get(procs[0], "counter"), strconv.Itoa(each*2*len(procs)); got != want {
		s.Fatalf("the counter is at %s after %s increments", got, want)
	}
}

// invariant moves between two accounts in multi-key transactions and reads both in one list.
func invariant(s *suite) {
	const total = 100
	a, b := s.open(), s.open()
	s.put(a, "acct/x", strconv.Itoa(total))
	s.put(a, "acct/y", "0")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			snap, err := b.List(s.ctx(), "acct/")
			if err != nil {
				s.Error(err)
				return
			}
			sum := 0
			for _, e := range snap.Entries {
				n, _ := strconv.Atoi(string(e.Value))
				sum += n
			}
			if sum != total {
				s.Errorf("a list read %d in all, expected %d: it is not of one point in time", sum, total)
				return
			}
		}
	})
	var movers sync.WaitGroup
	for _, p := range []*Process{a, b} {
		movers.Go(func() {
			for range 15 {
				snap, err := p.List(s.ctx(), "acct/")
				if err != nil {
					s.Error(err)
					return
				}
				x, y := snap.Entries[0], snap.Entries[1]
				nx, _ := strconv.Atoi(string(x.Value))
				ny, _ := strconv.Atoi(string(y.Value))
				_, err = p.Txn(s.ctx(), registry.Txn{
					Checks: []registry.Check{{Key: x.Key, Version: x.Version}, {Key: y.Key, Version: y.Version}},
					Puts:   []registry.Put{{Key: x.Key, Value: []byte(strconv.Itoa(nx - 1))}, {Key: y.Key, Value: []byte(strconv.Itoa(ny + 1))}},
				})
				if err != nil && !errors.Is(err, registry.ErrConflict) {
					s.Error(err)
				}
			}
		})
	}
	movers.Wait()
	close(stop)
	wg.Wait()
}

// linearizable records reads and unconditional writes of one key with their times, and searches
// for an order that explains them.
func linearizable(s *suite) {
	procs := []*Process{s.open(), s.open(), s.open()}
	var mu sync.Mutex
	var history []operation
	start := time.Now()
	var wg sync.WaitGroup
	for i, p := range procs {
		wg.Go(func() {
			for n := range 8 {
				op := operation{write: (n+i)%2 == 0, value: fmt.Sprintf("%d.%d", i, n), call: time.Since(start)}
				if op.write {
					_, err := p.Txn(s.ctx(), registry.Txn{Puts: []registry.Put{{Key: "reg", Value: []byte(op.value)}}, Quiet: n%3 == 0})
					if err != nil {
						s.Error(err)
						return
					}
				} else {
					e, err := p.Get(s.ctx(), "reg")
					if err != nil && !errors.Is(err, registry.ErrNotFound) {
						s.Error(err)
						return
					}
					op.value = string(e.Value)
				}
				op.back = time.Since(start)
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if !explainable(history) {
		s.Fatalf("no order of these operations explains what was read: %+v", history)
	}
}

func startAtOnce(s *suite) {
	const n = 20
	procs := make([]*Process, n)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range procs {
		wg.Go(func() {
			p := s.store.Open(s.T, driver.Options{})
			mu.Lock()
			procs[i] = p
			mu.Unlock()
			if _, err := p.Txn(s.ctx(), registry.Txn{Puts: []registry.Put{{Key: key(i), Value: []byte("here")}}}); err != nil {
				s.Error(err)
			}
		})
	}
	wg.Wait()
	if s.Failed() {
		return
	}
	for _, p := range procs {
		snap, err := p.List(s.ctx(), "k/")
		s.ok(err)
		if len(snap.Entries) != n {
			s.Errorf("a process sees %d of %d entries", len(snap.Entries), n)
		}
	}
	for _, p := range procs {
		wg.Go(func() { _ = p.Close() })
	}
	wg.Wait()
}

// operation is a read or a write of one register, with when it was called and came back.
type operation struct {
	write      bool
	value      string
	call, back time.Duration
}

// explainable searches for a linearization, the way Wing and Gong do: an operation may come next
// if no other that remains came back before it was called. States that were tried are remembered
// by the set of what is done and the register's value (Lowe). At most 64 operations.
func explainable(history []operation) bool {
	type situation struct {
		done  uint64
		value string
	}
	tried := map[situation]bool{}
	var search func(done uint64, value string) bool
	search = func(done uint64, value string) bool {
		if bits.OnesCount64(done) == len(history) {
			return true
		}
		at := situation{done, value}
		if tried[at] {
			return false
		}
		tried[at] = true
		first := time.Duration(1<<63 - 1)
		for i, op := range history {
			if done&(1<<i) == 0 {
				first = min(first, op.back)
			}
		}
		for i, op := range history {
			if done&(1<<i) != 0 || op.call > first || !op.write && op.value != value {
				continue
			}
			if search(done|1<<i, op.value) {
				return true
			}
		}
		return false
	}
	return search(0, "")
}
