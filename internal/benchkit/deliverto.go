package benchkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/push"
)

// enterPosts enters an endpoint that answers 204, and a bare client with as many requests at once.
func (c *deliver) enterPosts(ctx context.Context, r *run, rf *ringfence.Client) error {
	if err := fillKeys(ctx, rf, "posts", 1, c.Posts, func(i int) string { return fmt.Sprintf("key-%d", i) }); err != nil {
		return err
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	r.later(func() error { server.Close(); return nil })
	bare := r.Add(measure.Entry{Name: "bare net/http client", Unit: "records/s", Turn: func(*measure.Histogram) (float64, error) {
		return c.post(ctx, server.URL)
	}})
	r.Add(measure.Entry{Name: "subscription with an endpoint", Unit: "records/s", To: bare, Kind: "deliver http", Turn: func(*measure.Histogram) (float64, error) {
		e, err := push.New(push.Config{URL: server.URL, Subscription: "bench", AllowNet: loopback()})
		if err != nil {
			return 0, err
		}
		defer e.Close()
		return c.subscribe(ctx, rf, "posts", c.Posts, e.Deliver)
	}})
	return nil
}

// loopback are the addresses of this host.
func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// post posts as many values as the subscription delivers.
func (c *deliver) post(ctx context.Context, url string) (float64, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c.Concurrency, DisableCompression: true}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var n atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range c.Concurrency {
		wg.Go(func() { // joined below
			for n.Add(1) <= int64(c.Posts) {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(make([]byte, 100)))
				if err != nil {
					cancel(err)
					return
				}
				res, err := client.Do(req)
				if err != nil {
					cancel(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	}
	wg.Wait()
	return float64(c.Posts) / time.Since(began).Seconds(), context.Cause(ctx)
}

// leftovers are parked records, and what it took a new owner to learn of them.
type leftovers struct {
	rf     *ringfence.Client
	parked int
	turns  int
	held   []float64 // bytes of memory a record, by turn
}

const leftoverName = "parked"

// enterParked parks records, and enters how long a new owner reads the journal until it delivers.
func (c *deliver) enterParked(ctx context.Context, r *run, rf *ringfence.Client) (*leftovers, error) {
	l := &leftovers{rf: rf, parked: c.Parked}
	if err := r.park(ctx, rf, leftoverName, 1, c.Parked, c.ParkedKeys); err != nil {
		return nil, err
	}
	r.Add(measure.Entry{Name: fmt.Sprintf("new owner of %s, to its first delivery", measure.Many(c.Parked, "parked record")), Unit: "µs a record", Kind: "deliver rebuild",
		Turn: func(*measure.Histogram) (float64, error) {
			l.turns++
			took, err := l.deliver(ctx, c.Concurrency)
			return float64(took.Nanoseconds()) / 1e3 / float64(c.Parked), err
		}})
	return l, nil
}

// untilRedriven is a policy by which what fails is parked at once, and stays so.
func untilRedriven(topic string, shards int) ringfence.SubscriptionConfig {
	return ringfence.SubscriptionConfig{Topic: topic, Shards: shards, Hold: -1, Initial: 24 * time.Hour, Max: 24 * time.Hour}
}

// park makes a topic and a subscription of one name, and parks so many records of so many keys in each
// partition.
func (r *run) park(ctx context.Context, rf *ringfence.Client, name string, partitions, each, keys int) error {
	r.Bench.Logf("parking %s in each of %s", measure.Many(each, "record"), measure.Many(partitions, "partition"))
	if err := fillKeys(ctx, rf, name, partitions, each*partitions, func(i int) string { return fmt.Sprintf("!%d", i%keys) }); err != nil {
		return err
	}
	d, err := rf.EnsureSubscription(ctx, name, untilRedriven(name, 0))
	if err != nil {
		return err
	}
	return parkAll(ctx, rf, name, d.Group())
}

// parkAll runs a member until all records of a subscription's topic are parked: then its checkpoint is at the end
// of the topic.
func parkAll(ctx context.Context, rf *ringfence.Client, name, group string) error {
	ctx, cancel := context.WithCancel(ctx)
	looked := make(chan error, 1)
	go func() { // joined below
		defer cancel()
		looked <- noneLeft(ctx, rf, group)
	}()
	err := rf.Subscribe(ctx, name, func(context.Context, *ringfence.Message) error { return errPoison },
		&ringfence.SubscribeOptions{Concurrency: 4096})
	cancel()
	return errors.Join(err, <-looked)
}

// noneLeft waits until nothing is left of the topic of a group.
func noneLeft(ctx context.Context, rf *ringfence.Client, group string) error {
	return wait(ctx, 10*time.Minute, "the records to be parked", func() (bool, error) {
		g, err := rf.DescribeGroup(ctx, group)
		if errors.Is(err, ringfence.ErrNotFound) { // its first member makes it
			return false, nil
		}
		return err == nil && len(g.Units) > 0 && g.Lag == 0, err
	})
}

// deliver starts an owner, and says how long it took to deliver one good record, the last in the topic.
func (l *leftovers) deliver(ctx context.Context, concurrency int) (took time.Duration, err error) {
	t, err := storage(ctx, l.rf, leftoverName)
	if err != nil {
		return 0, err
	}
	good := []commitlog.Record{{Value: []byte("good")}}
	_, err = t.Append(ctx, 0, good, nil)
	_ = t.Close() // only this handle
	if err != nil {
		return 0, err
	}
	before := inUse()
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = l.rf.Subscribe(ctx, leftoverName, func(_ context.Context, m *ringfence.Message) error {
		if len(m.Key) > 0 {
			return errPoison
		}
		took = time.Since(began)
		if l.turns > 1 { // neither the parking nor the round that warms up
			l.held = append(l.held, max(0, inUse()-before)/float64(l.parked))
		}
		cancel()
		return nil
	}, &ringfence.SubscribeOptions{Concurrency: concurrency})
	if err == nil && took == 0 {
		err = ctx.Err()
	}
	return took, err
}

// show adds the memory to the figures.
func (l *leftovers) show(r *run) {
	r.Show("deliver memory", "bytes a record", 0, l.held)
	r.res.Notes = append(r.res.Notes, fmt.Sprintf("memory of %s: %s bytes each", measure.Many(l.parked, "parked record"), measure.Number(measure.Median(l.held))))
}

// inUse is the memory that this process uses, in bytes.
func inUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
