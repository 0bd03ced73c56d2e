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
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/push"
)

// deliver measures subscriptions: with a handler that does nothing against Consume, with records that
// fail against the same without them, with an endpoint against a bare client, and what is parked.
type deliver struct {
	Records     int `default:"1000000" usage:"records for the handler that does nothing"`
	Keys        int `default:"1000" usage:"different keys of them"`
	Partitions  int `default:"8" usage:"partitions of their topic"`
	Concurrency int `default:"16" usage:"handlers or requests at the same time in one partition"`
	Failing     int `default:"10000" least:"-1" usage:"records, a fifth of them poison at the head; and keys, of which one or a tenth fail (-1: leave them out)"`
	Work        int `default:"1000" least:"-1" usage:"<microseconds> that the handler of the good ones of them takes (-1: none)"`
	Posts       int `default:"10000" least:"-1" usage:"records to post to an endpoint of this process (-1: leave it out)"`
	Parked      int `default:"100000" least:"-1" usage:"parked records that a new owner learns of (-1: leave it out)"`
	ParkedKeys  int `default:"10000" usage:"different keys of them"`

	runs int // subscriptions and groups that were made so far
}

func (c *deliver) demands(s *settings) {
	s.that(c.Failing < 0 || c.Failing >= 10, "--failing is %d; expected 10 or more", c.Failing)
}

func (c *deliver) measure(ctx context.Context, r *run) {
	rf := r.open(ctx, "/data", ringfence.OS)
	c.enterHandler(ctx, r, rf)
	if c.Failing > 0 {
		c.enterFailing(ctx, r, rf)
	}
	if c.Posts > 0 {
		c.enterPosts(ctx, r, rf)
	}
	show := func() {}
	if c.Parked > 0 {
		show = c.enterParked(ctx, r, rf)
	}
	r.play()
	show()
	r.done("%s of %s in %s, order per key, durability os, %s", measure.Many(c.Records, "record"),
		measure.Many(c.Keys, "key"), measure.Many(c.Partitions, "partition"), measure.Many(r.Rounds, "round"))
}

// keyed names the keys of so many.
func keyed(keys int) func(i int) string {
	return func(i int) string { return fmt.Sprintf("key-%d", i%keys) }
}

// enterHandler enters a subscription whose handler does nothing, and Consume.
func (c *deliver) enterHandler(ctx context.Context, r *run, rf *ringfence.Client) {
	records := c.Records / c.Partitions * c.Partitions
	r.fillKeys(ctx, rf, "some", c.Partitions, records, keyed(c.Keys))
	consumed := r.Add(measure.Entry{Name: "Consume, empty handler", Unit: "records/s", Turn: func(*measure.Turn) float64 {
		c.runs++
		return consumeAll(ctx, rf, "some", fmt.Sprintf("group-%d", c.runs), records, c.Concurrency)
	}})
	r.Add(measure.Entry{Name: "subscription, empty handler", Unit: "records/s", To: consumed, Kind: "deliver", Turn: func(t *measure.Turn) float64 {
		return c.subscribe(ctx, t, rf, "some", records, nothing)
	}})
}

// errPoison is what the handlers of the measurement fail with.
var errPoison = errors.New("this record always fails")

// poisoned says whether a record always fails, by its key.
func poisoned(m *ringfence.Message) bool { return len(m.Key) > 0 && m.Key[0] == '!' }

// working is a handler that takes so many microseconds, and fails for poison.
func working(micros int, then ringfence.Handler) ringfence.Handler {
	return func(ctx context.Context, m *ringfence.Message) error {
		if poisoned(m) {
			return errPoison
		}
		if micros > 0 {
			time.Sleep(time.Duration(micros) * time.Microsecond)
		}
		return then(ctx, m)
	}
}

// enterFailing enters subscriptions some of whose records fail for ever, and the same without those.
func (c *deliver) enterFailing(ctx context.Context, r *run, rf *ringfence.Client) {
	records, keys := measure.Many(c.Failing, "record"), measure.Many(c.Failing, "key")
	var base *measure.Entry
	for n, e := range []struct {
		kind, name string
		each       int // records of each key
		fails      func(i int) bool
	}{
		{"", records + ", none fails", 1, nil},
		{"deliver poison", "of " + records + ", the first fifth fail", 1, func(i int) bool { return i < c.Failing/5 }},
		{"", "two records of each of " + keys + ", none fails", 2, nil},
		{"deliver one", "of " + keys + ", one fails", 2, func(i int) bool { return i%c.Failing == 1 }},
		{"deliver tenth", "of " + keys + ", a tenth fail", 2, func(i int) bool { return i%c.Failing%10 == 1 }},
	} {
		topic, good := fmt.Sprintf("failing-%d", n+1), 0
		r.fillKeys(ctx, rf, topic, 1, e.each*c.Failing, func(i int) string {
			if e.fails != nil && e.fails(i) {
				return fmt.Sprintf("!%d", i%c.Failing)
			}
			good++
			return keyed(c.Failing)(i)
		})
		entry := measure.Entry{Name: e.name, Unit: "good records/s", Kind: e.kind, Turn: func(t *measure.Turn) float64 {
			return c.subscribe(ctx, t, rf, topic, good, working(c.Work, nothing))
		}}
		if e.fails == nil {
			base = r.Add(entry)
		} else {
			entry.To = base
			r.Add(entry)
		}
	}
}

// subscribe delivers a topic to a new subscription until so many records succeeded, and removes it.
func (c *deliver) subscribe(ctx context.Context, t *measure.Turn, rf *ringfence.Client, topic string, good int, h ringfence.Handler) float64 {
	c.runs++
	name := fmt.Sprintf("sub-%d", c.runs)
	must(rf.EnsureSubscription(ctx, name, ringfence.SubscriptionConfig{Topic: topic}))
	t.Later(func() error {
		return rf.DeleteSubscription(ctx, name, &ringfence.DeleteSubscriptionOptions{Force: true})
	})
	return rate(ctx, good, h, func(ctx context.Context, h ringfence.Handler) error {
		return rf.Subscribe(ctx, name, h, &ringfence.SubscribeOptions{Concurrency: c.Concurrency})
	})
}

// enterPosts enters an endpoint that answers 204, and a bare client with as many requests at once.
func (c *deliver) enterPosts(ctx context.Context, r *run, rf *ringfence.Client) {
	r.fillKeys(ctx, rf, "posts", 1, c.Posts, keyed(c.Posts))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	r.Later(func() error { server.Close(); return nil })
	bare := r.Add(measure.Entry{Name: "bare net/http client", Unit: "records/s", Turn: func(*measure.Turn) float64 { return c.post(ctx, server.URL) }})
	r.Add(measure.Entry{Name: "subscription with an endpoint", Unit: "records/s", To: bare, Kind: "deliver http", Turn: func(t *measure.Turn) float64 {
		e := must(push.New(push.Config{URL: server.URL, Subscription: "bench", AllowNet: loopback()}))
		defer e.Close()
		return c.subscribe(ctx, t, rf, "posts", c.Posts, e.Deliver)
	}})
}

// loopback are the addresses of this host.
func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// post posts as many values as the subscription delivers.
func (c *deliver) post(ctx context.Context, url string) float64 {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c.Concurrency, DisableCompression: true}}
	defer client.CloseIdleConnections()
	var n atomic.Int64
	began := time.Now()
	measure.Together(c.Concurrency, func(int) {
		for n.Add(1) <= int64(c.Posts) {
			req := must(http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(make([]byte, 100))))
			res, err := client.Do(req)
			measure.Check(err)
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	})
	return float64(c.Posts) / time.Since(began).Seconds()
}

// enterParked parks records, and enters how long a new owner reads the journal until it delivers a good record, the
// last in the topic. What it returns adds the memory that the parked ones take to the figures.
func (c *deliver) enterParked(ctx context.Context, r *run, rf *ringfence.Client) (show func()) {
	const name = "parked"
	r.park(ctx, rf, name, 1, c.Parked, c.ParkedKeys)
	records := measure.Many(c.Parked, "parked record")
	runs, held := 0, []float64(nil) // bytes of memory a record, by turn
	r.Add(measure.Entry{Name: fmt.Sprintf("new owner of %s, to its first delivery", records), Unit: "µs a record", Kind: "deliver rebuild", Turn: func(t *measure.Turn) float64 {
		runs++
		must(storage(ctx, t.Script, rf, name).Append(ctx, 0, []commitlog.Record{{Value: []byte("good")}}, nil))
		before, began, took := inUse(), time.Now(), time.Duration(0)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		check(rf.Subscribe(ctx, name, working(0, func(context.Context, *ringfence.Message) error {
			took = time.Since(began)
			if runs > 1 { // neither the parking nor the round that warms up
				held = append(held, max(0, inUse()-before)/float64(c.Parked))
			}
			cancel()
			return nil
		}), &ringfence.SubscribeOptions{Concurrency: c.Concurrency}))
		if took == 0 {
			check(ctx.Err())
		}
		return float64(took.Nanoseconds()) / 1e3 / float64(c.Parked)
	}})
	return func() {
		r.Show("deliver memory", "bytes a record", 0, held)
		r.res.Notes = append(r.res.Notes, fmt.Sprintf("memory of %s: %s bytes each", records, measure.Number(measure.Median(held))))
	}
}

// untilRedriven is a policy by which what fails is parked at once, and stays so.
func untilRedriven(topic string, shards int) ringfence.SubscriptionConfig {
	return ringfence.SubscriptionConfig{Topic: topic, Shards: shards, Hold: -1, Initial: 24 * time.Hour, Max: 24 * time.Hour}
}

// park makes a topic and a subscription of one name, and parks so many records of so many keys in each
// partition: it runs a member until its checkpoint is at the end of the topic.
func (r *run) park(ctx context.Context, rf *ringfence.Client, name string, partitions, each, keys int) {
	r.fillKeys(ctx, rf, name, partitions, each*partitions, func(i int) string { return fmt.Sprintf("!%d", i%keys) })
	d := must(rf.EnsureSubscription(ctx, name, untilRedriven(name, 0)))
	r.Logf("parking them")
	ctx, cancel := context.WithCancel(ctx)
	parked := r.Beside(ctx, func(ctx context.Context) error {
		defer cancel()
		return measure.Try(func(*measure.Script) { noneLeft(ctx, rf, d.Group()) })
	})
	check(rf.Subscribe(ctx, name, working(0, nothing), &ringfence.SubscribeOptions{Concurrency: 4096}))
	check(parked())
}

// noneLeft waits until nothing is left of the topic of a group.
func noneLeft(ctx context.Context, rf *ringfence.Client, group string) {
	wait(ctx, 10*time.Minute, "the records to be parked", func() bool {
		g, err := rf.DescribeGroup(ctx, group)
		if errors.Is(err, ringfence.ErrNotFound) { // its first member makes it
			return false
		}
		check(err)
		return len(g.Units) > 0 && g.Lag == 0
	})
}

// inUse is the memory that this process uses, in bytes.
func inUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
