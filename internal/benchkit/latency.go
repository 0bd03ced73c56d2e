package benchkit

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence"
)

// LatencyConfig says what to measure; zero fields have defaults.
type LatencyConfig struct {
	Common
	Rate int // records a second; default 1,000
	Size int // bytes of a value, at least 8; default 100
}

// Latency measures the time from the call of Produce in this process to the handler in another
// one, at a rate.
func Latency(ctx context.Context, c LatencyConfig) (_ *Result, err error) {
	c.Common = c.Common.withDefaults()
	setDefault(&c.Rate, 1000)
	setDefault(&c.Size, 100)
	var d demand
	d.positive("--rate", c.Rate)
	d.that(c.Size >= 8, "--size is %d; expected 8 or more", c.Size)
	d.that(len(c.Command) > 0, "the latency needs a program to start")
	if err := errors.Join(d.errs...); err != nil {
		return nil, err
	}
	dir, remove, err := c.tempDir()
	if err != nil {
		return nil, err
	}
	defer remove()
	raw, err := newRawSync(dir + "/raw")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()
	const rawName = "one raw 4 KiB write + fdatasync, at that rate"
	game := contest{rest: c.rest}
	game.add(rawName, "µs, median", "", 1, func(h *histogram) (float64, error) {
		var round histogram
		err := raw.paced(c.For, time.Second/time.Duration(c.Rate), &round)
		h.merge(round.sparse())
		return round.micros(0.5), err
	})
	var stages []*stage
	defer func() {
		for _, s := range stages {
			s.close()
		}
	}()
	for _, durability := range []ringfence.Durability{ringfence.OS, ringfence.Sync} {
		s, err := c.open(ctx, fmt.Sprintf("%s/%s", dir, durability), durability)
		if err != nil {
			return nil, err
		}
		stages = append(stages, s)
		e := game.add("produce to handler, durability "+string(durability), "µs, median", rawName, 1, func(h *histogram) (float64, error) {
			return s.round(ctx, &c, h)
		})
		if durability == ringfence.OS {
			e.atMost("produce to handler in another process, durability os", 100)
		} else {
			e.ratioAtMost("produce to handler in another process, durable, of one raw write + fdatasync", 2)
		}
	}
	rows, figures, err := game.run(c.Rounds, c.Logf)
	if err != nil {
		return nil, err
	}
	return &Result{Bench: "latency", Rows: rows, Figures: figures, About: fmt.Sprintf("%d records/s of %d bytes to a consumer in another process, %s of %s taken in turn%s",
		c.Rate, c.Size, many(c.Rounds, "round"), c.For, c.about())}, nil
}

// stage is a client here and a consumer in another process.
type stage struct {
	rf     *ringfence.Client
	agent  *agent
	stores Stores
}

func (c *LatencyConfig) open(ctx context.Context, dir string, durability ringfence.Durability) (*stage, error) {
	own := c.Common
	own.Stores = own.apart()
	rf, err := own.open(ctx, dir, durability)
	if err != nil {
		return nil, err
	}
	s := &stage{rf: rf, stores: own.Stores}
	if err := rf.EnsureTopic(ctx, "latency", ringfence.TopicConfig{Partitions: 1}); err != nil {
		s.close()
		return nil, err
	}
	if s.agent, err = own.startAgent(ctx, task{Receive: &receiveJob{Dir: dir, Durability: durability}}); err != nil {
		s.close()
		return nil, err
	}
	if _, err := s.agent.next(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stage) close() {
	if s.agent != nil {
		s.agent.kill()
	}
	_ = s.stores.clean(context.Background(), s.rf)
	_ = s.rf.Close() // nothing of it is needed any more
}

// round produces at the rate, and asks the other process for what it saw.
func (s *stage) round(ctx context.Context, c *LatencyConfig, h *histogram) (float64, error) {
	every := time.Second / time.Duration(c.Rate)
	count := max(1, int(c.For/every))
	errs := make(chan error, count)
	next := time.Now()
	for range count {
		next = next.Add(every)
		if d := time.Until(next); d > 0 {
			time.Sleep(d)
		}
		value := make([]byte, c.Size)
		binary.LittleEndian.PutUint64(value, uint64(time.Now().UnixNano()))
		s.rf.ProduceAsync(ctx, "latency", ringfence.Message{Value: value}, nil, func(_ ringfence.Position, err error) { errs <- err })
	}
	for range count {
		if err := <-errs; err != nil {
			return 0, err
		}
	}
	if err := s.agent.tell(fmt.Sprint(count)); err != nil {
		return 0, err
	}
	m, err := s.agent.next()
	if err != nil {
		return 0, err
	}
	var round histogram
	round.merge(m.Latency)
	h.merge(m.Latency)
	return round.micros(0.5), nil
}

// receiveJob is a consumer that notes how old records are.
type receiveJob struct {
	Dir        string
	Durability ringfence.Durability
}

// run consumes until stdin ends. Each line on stdin is a number of records: when they have all
// come, it prints their latencies and forgets them.
func (j *receiveJob) run(ctx context.Context, at Stores, stdin *bufio.Scanner, stdout *json.Encoder) (err error) {
	rf, err := at.open(ctx, j.Dir, j.Durability)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rf.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	seen := new(histogram)
	more := make(chan struct{}, 1)
	assigned := make(chan struct{})
	opts := &ringfence.ConsumeOptions{Events: ringfence.Events{Assigned: func(int, int64, string, string) { close(assigned) }}}
	consumed := make(chan error, 1)
	go func() { // joined below
		consumed <- rf.Consume(ctx, "latency", "bench", func(_ context.Context, m *ringfence.Message) error {
			age := time.Now().UnixNano() - int64(binary.LittleEndian.Uint64(m.Value))
			mu.Lock()
			seen.add(time.Duration(age))
			mu.Unlock()
			select {
			case more <- struct{}{}:
			default:
			}
			return nil
		}, opts)
	}()
	defer func() {
		cancel()
		err = errors.Join(err, <-consumed)
	}()
	select {
	case <-assigned:
	case err := <-consumed:
		consumed <- nil
		return err
	}
	if err := stdout.Encode(message{Ready: true}); err != nil {
		return err
	}
	for stdin.Scan() {
		var want uint64
		if _, err := fmt.Sscan(stdin.Text(), &want); err != nil {
			return err
		}
		got := new(histogram)
		for got.count == 0 {
			mu.Lock()
			if seen.count >= want {
				got, seen = seen, got
			}
			mu.Unlock()
			if got.count == 0 {
				<-more
			}
		}
		if err := stdout.Encode(message{Count: int64(got.count), Latency: got.sparse()}); err != nil {
			return err
		}
	}
	return nil
}
