package benchkit

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/push"
)

// outages measures how soon an endpoint that was away for a while is back at the full rate, and how much of
// what came meanwhile was copied.
type outages struct {
	Partitions int `default:"8" usage:"partitions of the topic"`
	Keys       int `default:"1000" usage:"keys"`
	Rate       int `default:"5000" least:"10" usage:"records a second"`
	Down       int `default:"3000" usage:"<milliseconds> that an outage lasts"`
}

const away = "away" // the topic and its subscription

func (c *outages) measure(ctx context.Context, r *run) {
	rf := r.open(ctx, "/data", ringfence.OS)
	check(rf.EnsureTopic(ctx, away, ringfence.TopicConfig{Partitions: c.Partitions}))
	load := newKeyLoad(rf, away, c.Keys, c.Rate)
	end := &flakyEndpoint{load: load, addr: "127.0.0.1:0"}
	end.open()
	r.Later(end.close)
	d := must(rf.EnsureSubscription(ctx, away, ringfence.SubscriptionConfig{Topic: away}))
	p := must(push.New(push.Config{URL: "http://" + end.addr, Subscription: away, AllowNet: loopback()}))
	r.Later(func() error { p.Close(); return nil })
	r.deliverers(ctx, "/data", away, 1, p.Deliver)
	stop := r.Beside(ctx, load.produce)
	var copied []float64
	r.Add(measure.Entry{Name: "an endpoint is back, until it gets the full rate", Unit: "ms", Kind: "outage", Turn: func(t *measure.Turn) float64 {
		journal := storage(ctx, t.Script, rf, d.JournalTopic())
		before := appended(ctx, journal)
		took := c.outage(ctx, r, load, end)
		copied = append(copied, float64(appended(ctx, journal)-before))
		return took
	}})
	r.play()
	check(stop())
	load.settled(ctx)
	letters := must(rf.DeadLetters(ctx, away, nil))
	r.Show("outage copies", "records", c.Partitions, []float64{slices.Max(copied)}, measure.Many(c.Partitions, "shard"))
	r.Show("outage order", "records", 0, []float64{float64(load.wrong()) + float64(len(letters))}, measure.Many(load.sent.Load(), "record"))
	r.done("%s, %s with %d records a second, an endpoint by HTTP that is away for %s, durability os, %s", measure.Many(c.Partitions, "partition"),
		measure.Many(c.Keys, "key"), c.Rate, time.Duration(c.Down)*time.Millisecond, measure.Many(r.Rounds, "outage"))
}

// outage takes the endpoint away, brings it back, and says after how many ms from then on it took as many
// records in a tenth of a second as come; then it waits, without new ones, until what came meanwhile is delivered.
func (c *outages) outage(ctx context.Context, r *run, load *keyLoad, end *flakyEndpoint) float64 {
	const window = 100 * time.Millisecond
	measure.Pass(ctx, r.For)
	check(end.close())
	measure.Pass(ctx, time.Duration(c.Down)*time.Millisecond)
	back, last, took := time.Now(), load.delivered.Load(), time.Duration(0)
	end.open()
	for took == 0 {
		measure.Pass(ctx, window)
		switch n := load.delivered.Load(); {
		case float64(n-last) >= float64(c.Rate)*window.Seconds():
			took = time.Since(back)
		case time.Since(back) > time.Minute:
			check(fmt.Errorf("the endpoint is back for %s and gets %d records a second", time.Since(back), (n-last)*int64(time.Second/window)))
		default:
			last = n
		}
	}
	load.rests.Store(true) // or a machine that is too slow for the load would never get there
	defer load.rests.Store(false)
	load.settled(ctx)
	return float64(took.Microseconds()) / 1e3
}

// appended counts the records that a topic has had.
func appended(ctx context.Context, t *commitlog.Topic) (n int64) {
	for p := range t.Config().Partitions {
		n += must(t.Bounds(ctx, p)).Next
	}
	return n
}

// flakyEndpoint is an endpoint by HTTP for a load, at one address, that can go away and come back.
type flakyEndpoint struct {
	load   *keyLoad
	addr   string
	server *httptest.Server
}

func (e *flakyEndpoint) open() {
	e.server = &httptest.Server{Listener: must(net.Listen("tcp", e.addr)), Config: &http.Server{Handler: e}}
	e.addr = e.server.Listener.Addr().String()
	e.server.Start()
}

// close ends it in the middle of whatever it does; it may be closed already.
func (e *flakyEndpoint) close() error {
	e.server.CloseClientConnections()
	e.server.Close()
	return nil
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
