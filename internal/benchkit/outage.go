package benchkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/push"
)

// outages measures how soon an endpoint that was away for a while is back at the full rate, and how much of
// what came meanwhile was copied.
type outages struct {
	Partitions int
	Keys       int
	Rate       int
	Down       int // ms
}

const away = "away" // the topic and its subscription

func (c *outages) settings(s *settings) {
	s.rounds("outages")
	s.time(time.Second, "time before an outage")
	s.number(&c.Partitions, "partitions", 8, 1, "partitions of the topic")
	s.number(&c.Keys, "keys", 1000, 1, "keys")
	s.number(&c.Rate, "rate", 5000, 10, "records a second")
	s.number(&c.Down, "down", 3000, 1, "`milliseconds` that an outage lasts")
}

func (c *outages) measure(ctx context.Context, r *run) (err error) {
	rf, err := r.open(ctx, "/data", ringfence.OS)
	if err != nil {
		return err
	}
	if err := rf.EnsureTopic(ctx, away, ringfence.TopicConfig{Partitions: c.Partitions}); err != nil {
		return err
	}
	load := newKeyLoad(rf, away, c.Keys, c.Rate)
	end, err := newFlakyEndpoint(load)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end.close()) }()
	d, err := rf.EnsureSubscription(ctx, away, ringfence.SubscriptionConfig{Topic: away})
	if err != nil {
		return err
	}
	p, err := push.New(push.Config{URL: "http://" + end.addr, Subscription: away, AllowNet: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		return err
	}
	defer p.Close()
	leave, err := r.deliverers(ctx, "/data", away, 1, p.Deliver)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	stop := load.start(ctx)
	var copied []float64
	r.Add(measure.Entry{Name: "an endpoint is back, until it gets the full rate", Unit: "ms", Kind: "outage", Turn: func(*measure.Histogram) (float64, error) {
		before, err := journaled(ctx, rf, d.JournalTopic(), c.Partitions)
		if err != nil {
			return 0, err
		}
		took, err := c.outage(ctx, r, load, end)
		after, err2 := journaled(ctx, rf, d.JournalTopic(), c.Partitions)
		copied = append(copied, float64(after-before))
		return took, errors.Join(err, err2)
	}})
	if err := errors.Join(r.play(), stop()); err != nil {
		return err
	}
	if err := load.settled(ctx); err != nil {
		return err
	}
	letters, err := rf.DeadLetters(ctx, away, nil)
	if err != nil {
		return err
	}
	r.Show("outage copies", "records", c.Partitions, []float64{slices.Max(copied)}, measure.Many(c.Partitions, "shard"))
	r.Show("outage order", "records", 0, []float64{float64(load.wrong()) + float64(len(letters))}, measure.Many(load.sent.Load(), "record"))
	return r.done("%s, %s with %d records a second, an endpoint by HTTP that is away for %s, durability os, %s", measure.Many(c.Partitions, "partition"),
		measure.Many(c.Keys, "key"), c.Rate, time.Duration(c.Down)*time.Millisecond, measure.Many(r.Rounds, "outage"))
}

// outage takes the endpoint away, brings it back, and says after how many ms from then on it took as many
// records in a tenth of a second as come; then it waits, without new ones, until what came meanwhile is delivered.
func (c *outages) outage(ctx context.Context, r *run, load *keyLoad, end *flakyEndpoint) (float64, error) {
	const window = 100 * time.Millisecond
	if _, err := waited(ctx, load, r.For); err != nil {
		return 0, err
	}
	if err := end.close(); err != nil {
		return 0, err
	}
	if _, err := waited(ctx, load, time.Duration(c.Down)*time.Millisecond); err != nil {
		return 0, err
	}
	back, last, took := time.Now(), load.delivered.Load(), time.Duration(0)
	if err := end.open(); err != nil {
		return 0, err
	}
	for took == 0 {
		if _, err := waited(ctx, load, window); err != nil {
			return 0, err
		}
		switch n := load.delivered.Load(); {
		case float64(n-last) >= float64(c.Rate)*window.Seconds():
			took = time.Since(back)
		case time.Since(back) > time.Minute:
			return 0, fmt.Errorf("the endpoint is back for %s and gets %d records a second", time.Since(back), (n-last)*int64(time.Second/window))
		default:
			last = n
		}
	}
	load.rests.Store(true) // or a machine that is too slow for the load would never get there
	defer load.rests.Store(false)
	return float64(took.Microseconds()) / 1e3, load.settled(ctx)
}

// journaled counts the records that the journals of a subscription have had.
func journaled(ctx context.Context, rf *ringfence.Client, journal string, shards int) (n int64, _ error) {
	t, err := storage(ctx, rf, journal)
	if err != nil {
		return 0, err
	}
	defer func() { _ = t.Close() }() // only this handle
	for p := range shards {
		b, err := t.Bounds(ctx, p)
		if err != nil {
			return 0, err
		}
		n += b.Next
	}
	return n, nil
}

// flakyEndpoint is an endpoint by HTTP for a load, at one address, that can go away and come back.
type flakyEndpoint struct {
	load   *keyLoad
	addr   string
	server *http.Server
	served chan error
}

func newFlakyEndpoint(load *keyLoad) (*flakyEndpoint, error) {
	e := &flakyEndpoint{load: load, addr: "127.0.0.1:0"}
	err := e.open()
	return e, err
}

func (e *flakyEndpoint) open() error {
	l, err := net.Listen("tcp", e.addr)
	if err != nil {
		return err
	}
	e.addr, e.served = l.Addr().String(), make(chan error, 1)
	e.server = &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	go func(s *http.Server, served chan error) { served <- s.Serve(l) }(e.server, e.served) // joined by close
	return nil
}

// close ends it in the middle of whatever it does; it may be closed already.
func (e *flakyEndpoint) close() error {
	if e.server == nil {
		return nil
	}
	err := e.server.Close()
	if served := <-e.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	e.server = nil
	return err
}

// ServeHTTP takes a record.
func (e *flakyEndpoint) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	value, err := io.ReadAll(io.LimitReader(req.Body, 1<<10))
	if err == nil {
		err = e.load.take([]byte(req.Header.Get("Ringfence-Key")), value)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
