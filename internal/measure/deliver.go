package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/internal/script"
	"github.com/ringfence/ringfence/push"
)

// deliver measures subscriptions against Consume, with failing records against none, and an endpoint against a client.
type deliver struct {
	Records, Keys, Partitions, Concurrency int
	Failing, Work, Posts                   int

	runs int // subscriptions and groups that were made so far
}

func (c *deliver) flags(fl *pflag.FlagSet, common *Common) {
	common.roundsVar(fl)
	numberVar(fl, &c.Records, "records", 1_000_000, 1, "records for the handler that does nothing")
	numberVar(fl, &c.Keys, "keys", 1000, 1, "different keys of them")
	numberVar(fl, &c.Partitions, "partitions", 8, 1, "partitions of their topic")
	numberVar(fl, &c.Concurrency, "concurrency", 16, 1, "handlers or requests at the same time in one partition")
	numberVar(fl, &c.Failing, "failing", 10_000, 0, "records of which the first fifth fail (0: leave them out)")
	numberVar(fl, &c.Work, "work", 1000, 0, "`microseconds` that the handler of the good ones of them takes")
	numberVar(fl, &c.Posts, "posts", 10_000, 0, "records to post to an endpoint of this process (0: leave it out)")
}

func (c *deliver) demand(d *demands, _ *Common) {
	d.that(c.Failing == 0 || c.Failing >= 5, "--failing is %d; expected 5 or more", c.Failing)
	d.that(c.Records >= c.Partitions, "--records is %d; expected --partitions, %d, or more", c.Records, c.Partitions)
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
	r.play()
	r.done("%s of %s in %s, order per key, durability os, %s", Many(c.Records, "record"),
		Many(c.Keys, "key"), Many(c.Partitions, "partition"), Many(r.Rounds, "round"))
}

// keyed names the keys of so many.
func keyed(keys int) func(i int) string {
	return func(i int) string { return fmt.Sprintf("key-%d", i%keys) }
}

// enterHandler enters a subscription whose handler does nothing, and Consume.
func (c *deliver) enterHandler(ctx context.Context, r *run, rf *ringfence.Client) {
	records := c.Records / c.Partitions * c.Partitions
	r.fillKeys(ctx, rf, "some", c.Partitions, records, keyed(c.Keys))
	consumed := r.Add(Entry{Name: "Consume, empty handler", Unit: "records/s", Turn: func(*Turn) float64 {
		c.runs++
		return consumeAll(ctx, rf, "some", fmt.Sprintf("group-%d", c.runs), records, c.Concurrency)
	}})
	r.Add(Entry{Name: "subscription, empty handler", Unit: "records/s", To: consumed, Kind: "deliver", Turn: func(t *Turn) float64 {
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

// enterFailing enters a subscription whose first records fail for ever, and the same without those.
func (c *deliver) enterFailing(ctx context.Context, r *run, rf *ringfence.Client) {
	enter := func(name string, fails int) *Entry {
		topic := fmt.Sprintf("failing-%d", fails)
		r.fillKeys(ctx, rf, topic, 1, c.Failing, func(i int) string {
			if i < fails {
				return fmt.Sprintf("!%d", i)
			}
			return keyed(c.Failing)(i)
		})
		return r.Add(Entry{Name: name, Unit: "good records/s", Turn: func(t *Turn) float64 {
			return c.subscribe(ctx, t, rf, topic, c.Failing-fails, working(c.Work, nothing))
		}})
	}
	records := Many(c.Failing, "record")
	base := enter(records+", none fails", 0)
	poison := enter("of "+records+", the first fifth fail", c.Failing/5)
	poison.To, poison.Kind = base, "deliver poison"
}

// subscribe delivers a topic to a new subscription until so many records succeeded, and removes it.
func (c *deliver) subscribe(ctx context.Context, t *Turn, rf *ringfence.Client, topic string, good int, h ringfence.Handler) float64 {
	c.runs++
	name := fmt.Sprintf("sub-%d", c.runs)
	script.Must(rf.Admin().CreateSubscription(ctx, name, admin.SubscriptionConfig{Topic: topic}))
	t.Later(func() error {
		return rf.Admin().DeleteSubscription(ctx, name, &admin.DeleteSubscriptionOptions{Force: true})
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
	bare := r.Add(Entry{Name: "bare net/http client", Unit: "records/s", Turn: func(*Turn) float64 { return c.post(ctx, server.URL) }})
	r.Add(Entry{Name: "subscription with an endpoint", Unit: "records/s", To: bare, Kind: "deliver http", Turn: func(t *Turn) float64 {
		e := script.Must(push.New(push.Config{URL: server.URL, Subscription: "bench", AllowNet: loopback()}))
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
	script.Together(c.Concurrency, func(int) {
		for n.Add(1) <= int64(c.Posts) {
			req := script.Must(http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(make([]byte, 100))))
			res, err := client.Do(req)
			script.Check(err)
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	})
	return float64(c.Posts) / time.Since(began).Seconds()
}
