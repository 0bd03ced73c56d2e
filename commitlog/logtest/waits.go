package logtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/commitlog"
)

var waitTests = []test{
	{"Wait/ReturnsAtOnceBelowTheEnd", nil, waitBelow},
	{"Wait/ReturnsOnlyWhenARecordIsReadable", nil, waitReadable},
	{"Wait/NoWakeUpIsLost", nil, waitPingPong},
	{"Wait/EverybodyIsWoken", nil, waitMany},
	{"Wait/IsForOnePartition", nil, waitPartition},
	{"Wait/EndsWithItsContext", nil, waitContext},
	{"Wait/EndsWithTheSeal", nil, waitSeal},
	{"Wait/EndsWithTheHandleAndWithTheLog", nil, waitClose},
}

func waitBelow(e *env) {
	t := e.topic(e.log(), 1)
	e.add(t, 0, "a", "b", "c")
	for _, r := range e.all(t, 0) {
		e.must(t.Wait(e.ctx, 0, r.Offset))
	}
}

func waitReadable(e *env) {
	_, a, b := e.two(1)
	rounds := e.n(100, 10)
	got, atEnd := make(chan error, 1), make(chan struct{})
	at := e.first(b, 0)
	go func() {
		defer close(atEnd)
		for range rounds {
			atEnd <- struct{}{} // from here on the next append may come
			if err := b.Wait(e.ctx, 0, at); err != nil {
				got <- err
				return
			}
			recs, next, err := b.Read(e.ctx, 0, at, nil, nil)
			if err != nil || len(recs) == 0 && next <= at {
				got <- fmt.Errorf("Wait(%d) returned, and a read from there gives %d records, %w", at, len(recs), err)
				return
			}
			for len(recs) == 0 { // a gap only
				if recs, next, err = readNext(e.ctx, b, next); err != nil {
					got <- err
					return
				}
			}
			at = next
		}
		got <- nil
	}()
	for range atEnd {
		e.add(a, 0, "x")
	}
	e.must(<-got)
}

// readNext waits for what comes behind a gap.
func readNext(ctx context.Context, t *commitlog.Topic, at int64) ([]commitlog.Record, int64, error) {
	if err := t.Wait(ctx, 0, at); err != nil {
		return nil, at, err
	}
	return t.Read(ctx, 0, at, nil, nil)
}

// Two parties answer each other; one lost wake-up and both wait for ever.
func waitPingPong(e *env) {
	_, a, b := e.two(2)
	rounds := e.n(300, 20)
	hear := func(t *commitlog.Topic, partition int) func(round int) error {
		r := t.NewReader(partition, e.first(t, partition), nil)
		return func(round int) error {
			recs, err := r.Next(e.ctx)
			if err == nil && (len(recs) != 1 || string(recs[0].Value) != fmt.Sprint(round)) {
				err = fmt.Errorf("got %q", values(recs))
			}
			return err
		}
	}
	got := make(chan error, 1)
	ping, pong := hear(b, 0), hear(a, 1)
	go func() {
		for i := range rounds {
			err := ping(i)
			if err == nil {
				_, err = b.Append(e.ctx, 1, records(fmt.Sprint(i)), nil)
			}
			if err != nil {
				got <- fmt.Errorf("the second party in round %d: %w", i, err)
				return
			}
		}
		got <- nil
	}()
	for i := range rounds {
		e.add(a, 0, fmt.Sprint(i))
		if err := pong(i); err != nil {
			e.Fatalf("the first party in round %d: %v", i, err)
		}
	}
	e.must(<-got)
}

func waitMany(e *env) {
	_, a, b := e.two(4)
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	const waiters = 40
	got := make(chan error, waiters)
	for i := range waiters {
		go func() {
			t := []*commitlog.Topic{a, b}[i%2]
			got <- t.Wait(ctx, i/2%4, 0)
		}()
	}
	for p := range 4 {
		e.add(a, p, "x")
	}
	for range waiters {
		e.must(<-got)
	}
}

func waitPartition(e *env) {
	_, a, b := e.two(2)
	ctx, cancel := context.WithCancel(e.ctx)
	got := make(chan error, 1)
	go func() { got <- b.Wait(ctx, 1, 0) }()
	e.add(a, 0, "of the other partition")
	e.must(b.Wait(e.ctx, 0, 0))
	cancel()
	e.wantIs(<-got, context.Canceled)
}

func waitContext(e *env) {
	t := e.topic(e.log(), 1)
	ctx, cancel := context.WithTimeout(e.ctx, 20*time.Millisecond)
	defer cancel()
	e.wantIs(e.wait(ctx, t, 0, 0), context.DeadlineExceeded)
	done, cancel := context.WithCancel(e.ctx)
	cancel()
	e.wantIs(e.wait(done, t, 0, 0), context.Canceled)
	e.add(t, 0, "x")
	e.must(t.Wait(e.ctx, 0, 0))
}

func waitSeal(e *env) {
	_, a, b := e.two(2)
	e.add(a, 0, "x")
	end := e.bounds(a, 0).Next
	got := make(chan error, 2)
	go func() { got <- b.Wait(e.ctx, 0, end) }()
	go func() { got <- b.Wait(e.ctx, 1, 0) }()
	e.must(errOf(a.Seal(e.ctx)))
	e.must(<-got)
	e.must(<-got)
	e.must(b.Wait(e.ctx, 0, end))
	if !e.bounds(b, 0).Sealed {
		e.Error("Wait returned for the seal, and Bounds does not know it")
	}
}

func waitClose(e *env) {
	l := e.log()
	t, other := e.topic(l, 1), e.openTopic(l)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := t.Wait(e.ctx, 0, 0); !errors.Is(err, commitlog.ErrClosed) {
				e.Errorf("Wait on a handle that was closed: %v", err)
			}
		})
	}
	e.must(t.Close())
	wg.Wait()
	for range 3 {
		wg.Go(func() {
			if err := other.Wait(e.ctx, 0, 0); !errors.Is(err, commitlog.ErrClosed) {
				e.Errorf("Wait on a log that was closed: %v", err)
			}
		})
	}
	e.must(l.Close())
	wg.Wait()
}
