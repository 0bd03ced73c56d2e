package push_test

import (
	"context"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/push"
)

// Of two daemons one may not dial the address that the endpoint's name has: the other one delivers all records, and the
// first comes back as the last one there is, without an attempt that counts.
func TestADaemonThatCantReachTheEndpointLeavesItToAnother(t *testing.T) {
	t.Parallel()
	rf := client(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 4}))
	var in inbox
	at, err := url.Parse(receiver(t, in.ServeHTTP))
	must(t, err)
	at.Host = "inner.example.com:" + at.Port()
	_, err = rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{
		Topic: "payments", Retry: admin.Retry{Initial: time.Millisecond, Max: time.Millisecond, Attempts: 1}, Endpoint: admin.EndpointConfig{URL: at.String()},
	})
	must(t, err)
	left := make(chan struct{}, 100)
	log := slog.New(slog.NewTextHandler(writer(func(line []byte) {
		if strings.Contains(string(line), "leaves the subscription") {
			left <- struct{}{}
		}
	}), nil))
	serve := func(c push.Config) (stop func()) {
		c.Resolver = names(t, "127.0.0.1")
		return runs(t, func(ctx context.Context) error { return push.Serve(ctx, rf, &push.ServeOptions{Config: c}) })
	}
	serve(push.Config{Logger: log})
	members := func() int {
		d, err := rf.Admin().GetSubscription(t.Context(), "billing")
		must(t, err)
		g, err := rf.Admin().DescribeGroup(t.Context(), d.Group())
		if err != nil {
			return 0
		}
		return len(g.Members)
	}
	eventually(t, "the one that can't", func() bool { return members() == 1 })
	stop := serve(push.Config{AllowNet: loopback})
	eventually(t, "both", func() bool { return members() == 2 })
	for i := range 40 {
		produce(t, rf, "payments", strconv.Itoa(i), "1")
	}
	eventually(t, "all records", func() bool {
		n := 0
		for i := range 40 {
			n += len(in.has("billing/" + strconv.Itoa(i)))
		}
		return n == 40
	})
	<-left
	list, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
	if must(t, err); len(list) > 0 {
		t.Errorf("%d records were given up", len(list))
	}
	stop()
	eventually(t, "the one that can't, alone again", func() bool { return members() == 1 })
}

// The endpoint's address is one that no daemon's own policy allows: the last one there is owns the shards, and all hosts
// see why they stand still, with no record and with some. It leaves them to one that may deliver.
func TestADaemonThatRefusesTheEndpointTellsWhy(t *testing.T) {
	t.Parallel()
	rf := client(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 2}))
	var in inbox
	subscribed(t, rf, "billing", receiver(t, in.ServeHTTP))
	runs(t, func(ctx context.Context) error { return push.Serve(ctx, rf, nil) })
	open := func() *api.Breaker {
		s, err := rf.Admin().DescribeSubscription(t.Context(), "billing")
		must(t, err)
		if s.Breaker == nil || len(s.Breaker.Open) != 1 || len(s.Breaker.Open[0].Shards) != 2 || s.Dead.Records+s.Parked.Records > 0 {
			return nil
		}
		return s.Breaker
	}
	eventually(t, "an owner that tells", func() bool { return open() != nil })
	produce(t, rf, "payments", "k", "1")
	if why := open(); why == nil || !strings.Contains(why.Open[0].Why, "is loopback, and nothing is sent there unless --allow-net has it") {
		t.Errorf("it tells %+v", why)
	}
	st, err := rf.Admin().Status(t.Context())
	must(t, err)
	if len(st.Findings) != 1 || st.Findings[0].Kind != api.FoundBreaker || !strings.Contains(st.Findings[0].Cause, "--allow-net") {
		t.Errorf("status: %+v", st.Findings)
	}
	daemon(t, rf)
	eventually(t, "the record", func() bool { return len(in.has("billing/k")) == 1 })
}
