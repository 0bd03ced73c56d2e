package logtest

import (
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/ringfence/ringfence/commitlog"
)

var sealTests = []test{
	{"Seal/RefusesLaterAppends", nil, sealRefuses},
	{"Seal/IsIdempotentAndLasts", nil, sealLasts},
	{"Seal/ConcurrentSealsAgree", nil, sealConcurrently},
	{"Seal/RacesWithAppendsAndFixesTheEnd", nil, sealRace},
	{"Seal/AReaderReachesTheEnd", nil, sealReader},
}

func sealRefuses(e *env) {
	_, a, b := e.two(2)
	e.add(a, 0, "x")
	ends, err := a.Seal(e.ctx)
	e.must(err)
	for _, t := range []*commitlog.Topic{a, b} {
		for p := range 2 {
			e.wantIs(errOf(t.Append(e.ctx, p, records("late"), nil)), commitlog.ErrSealed)
			if got := e.bounds(t, p); !got.Sealed || got.Next != ends[p] {
				e.Errorf("bounds of partition %d after the seal: %+v; want the end %d, sealed", p, got, ends[p])
			}
		}
	}
	e.wantValues(e.all(b, 0), "x")
	e.wantValues(e.all(b, 1))
}

func sealLasts(e *env) {
	l := e.open()
	t := e.topic(l, 3)
	e.add(t, 1, "x", "y")
	ends, err := t.Seal(e.ctx)
	e.must(err)
	again, err := t.Seal(e.ctx)
	e.must(err)
	e.must(l.Close())
	t = e.openTopic(e.log())
	reopened, err := t.Seal(e.ctx)
	e.must(err)
	if !slices.Equal(ends, again) || !slices.Equal(ends, reopened) || len(ends) != 3 {
		e.Errorf("ends %v, sealed again %v, after reopening %v", ends, again, reopened)
	}
	e.wantIs(errOf(t.Append(e.ctx, 0, records("late"), nil)), commitlog.ErrSealed)
	e.wantValues(e.all(t, 1), "x", "y")
}

func sealConcurrently(e *env) {
	_, a, b := e.two(2)
	e.add(a, 0, "x")
	ends := make([][]int64, 6)
	var wg sync.WaitGroup
	for i := range ends {
		wg.Go(func() {
			got, err := []*commitlog.Topic{a, b}[i%2].Seal(e.ctx)
			if err != nil {
				e.Error(err)
			}
			ends[i] = got
		})
	}
	wg.Wait()
	for _, got := range ends {
		if !slices.Equal(got, ends[0]) {
			e.Errorf("seals disagree: %v", ends)
		}
	}
}

// Whatever was acked is below the end that the seal fixed; whatever was refused is nowhere.
func sealRace(e *env) {
	_, a, b := e.two(2)
	const writers = 6
	outcomes := make([][]outcome, writers)
	var wg sync.WaitGroup
	started := make(chan struct{}, writers)
	for w := range writers {
		wg.Go(func() {
			t := []*commitlog.Topic{a, b}[w%2]
			for i := 0; ; i++ {
				value := fmt.Sprintf("%d/%d", w, i)
				first, err := t.Append(e.ctx, w/2%2, records(value), nil)
				outcomes[w] = append(outcomes[w], outcome{value, first, err})
				if i == 3 {
					started <- struct{}{}
				}
				if err != nil {
					if i < 3 {
						started <- struct{}{}
					}
					return
				}
			}
		})
	}
	for range writers {
		<-started
	}
	ends, err := a.Seal(e.ctx)
	e.must(err)
	wg.Wait()
	stored := [2]map[string]int64{}
	for p := range 2 {
		stored[p] = map[string]int64{}
		if got := e.bounds(b, p); got.Next != ends[p] {
			e.Errorf("the end of partition %d moved from %d to %d after the seal", p, ends[p], got.Next)
		}
		for _, r := range e.all(b, p) {
			stored[p][string(r.Value)] = r.Offset
		}
	}
	for w, list := range outcomes {
		for _, o := range list {
			if o.err != nil {
				e.wantIs(o.err, commitlog.ErrSealed)
			}
			e.wantOutcome(o, stored[w/2%2])
		}
	}
}

func sealReader(e *env) {
	_, a, b := e.two(1)
	n := e.n(200, 20)
	got := make(chan []commitlog.Record, 1)
	reader := b.NewReader(0, e.first(b, 0), nil)
	go func() {
		var all []commitlog.Record
		for {
			recs, err := reader.Next(e.ctx)
			if err != nil {
				e.wantIs(err, io.EOF)
				got <- all
				return
			}
			all = append(all, recs...)
		}
	}()
	for i := range n {
		e.add(a, 0, fmt.Sprint(i))
	}
	ends, err := a.Seal(e.ctx)
	e.must(err)
	if all := <-got; len(all) != n || reader.Offset() != ends[0] {
		e.Errorf("the reader got %d records of %d and stands at %d of %d", len(all), n, reader.Offset(), ends[0])
	}
}
