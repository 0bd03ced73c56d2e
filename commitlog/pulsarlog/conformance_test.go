package pulsarlog

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/logtest"
	"github.com/ringfence/ringfence/internal/testserver"
)

// store makes a namespace of its own and returns what opens a log on it.
func store(t testing.TB) func() *commitlog.Log {
	t.Helper()
	u := namespace(t)
	return func() *commitlog.Log {
		l, err := OpenURL(t.Context(), u, driver.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// namespace makes one on the server, for this test.
func namespace(t testing.TB) *url.URL {
	t.Helper()
	u, err := url.Parse(testserver.URL(t, "pulsar"))
	if err != nil {
		t.Fatal(err)
	}
	c := Config{ServiceURL: "pulsar://" + u.Host, AdminURL: u.Query().Get("web")}.withDefaults()
	a := c.admin(nil)
	ns := "test-" + strings.ToLower(rand.Text())
	path := "/namespaces/public/" + ns
	if err := a.send(t.Context(), http.MethodPut, path, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		names, _ := a.topics(ctx)
		for _, n := range names {
			_ = a.delete(ctx, n)
		}
		_ = a.send(ctx, http.MethodDelete, path, nil) // what is left is the server's to clean up
		a.close()
	})
	a.namespace = ns
	u.Path = "/public/" + ns
	return u
}

func TestMain(m *testing.M) {
	// A random history takes a second here, and tests wait for servers rather than for a core.
	if err := errors.Join(flag.Set("rapid.checks", "6"), flag.Set("test.parallel", "4")); err != nil {
		panic(err)
	}
	// A producer that the broker ends, because the topic is terminated or another producer fenced
	// it, leaves a goroutine in the client for good: only Close cancels it, and Close does nothing
	// then. The other one ends by itself when the time-out of a send is over.
	const producer = "github.com/apache/pulsar-client-go/pulsar.(*partitionProducer)."
	// A reader that is closed while it connects leaves one too, which tells nobody any more that it has.
	const consumer = "github.com/apache/pulsar-client-go/pulsar.(*partitionConsumer)."
	// A connection that net/http dialled for a request that was given up meanwhile is kept until its
	// idle time is over, also behind CloseIdleConnections.
	const connection = "net/http.(*persistConn)."
	// So does whoever reconnects just when the client is closed: its pool makes a connection behind its own end,
	// which nobody closes. A client that we forget to close is seen all the same, by the goroutine of its pool.
	const inner = "github.com/apache/pulsar-client-go/pulsar/internal."
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(producer+"runEventsLoop.func1"), goleak.IgnoreTopFunction(producer+"failTimeoutMessages"),
		goleak.IgnoreTopFunction(consumer+"grabConn.func1"),
		goleak.IgnoreAnyFunction(inner+"(*connection).run"), goleak.IgnoreAnyFunction(inner+"(*connection).runPingCheck"),
		goleak.IgnoreAnyFunction(inner+"(*connectionReader).readFromConnection"),
		goleak.IgnoreAnyFunction(connection+"readLoop"), goleak.IgnoreAnyFunction(connection+"writeLoop"))
}

func TestConformance(t *testing.T) {
	t.Parallel()
	logtest.Run(t, logtest.Harness{Store: store, Features: logtest.Features{
		NoProducers: true, EventualDelete: true, CoarseRetention: true, CoarseOffsetAt: true, Slow: true, MaxRecordBytes: defaultMessageBytes - 64<<10, MaxBatchRecords: batchRecords,
	}})
}
