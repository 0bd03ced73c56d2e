package push_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/push"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/subscription"
)

// inbox is an endpoint that remembers what it took, by key.
type inbox struct {
	mu     sync.Mutex
	took   map[string][]string
	refuse func(key, value string) int // a status, or 0
}

func (b *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	key, value := r.Header.Get("Ringfence-Subscription")+"/"+r.Header.Get("Ringfence-Key"), string(body)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse != nil {
		if code := b.refuse(key, value); code != 0 {
			w.WriteHeader(code)
			return
		}
	}
	if b.took == nil {
		b.took = map[string][]string{}
	}
	if all := b.took[key]; len(all) == 0 || !slices.Contains(all, value) { // a record may come twice
		b.took[key] = append(all, value)
	}
}

// crowd answers as an inbox, after a pause in which more may come, and not before so many came at once; it says how
// many these were at most.
type crowd struct {
	inbox
	gathers   int64
	pause     time.Duration
	now, most atomic.Int64
}

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for m := c.most.Load(); n > m; m = c.most.Load() {
		c.most.CompareAndSwap(m, n)
	}
	<-time.After(c.pause)
	for c.most.Load() < c.gathers && r.Context().Err() == nil {
		<-time.After(time.Millisecond)
	}
	c.inbox.ServeHTTP(w, r)
}

func (b *inbox) set(refuse func(key, value string) int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = refuse
}

func (b *inbox) has(key string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.took[key])
}

// waits for a condition of something that another goroutine does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.After(30 * time.Second)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("this did not come: %s", what)
		}
	}
}

func client(t *testing.T) *ringfence.Client {
	t.Helper()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { must(t, rf.Close()) })
	return rf
}

// daemon runs Serve until the test ends, or the returned function is called.
func daemon(t *testing.T, rf *ringfence.Client) (stop func()) {
	t.Helper()
	return daemonTelling(t, rf, nil)
}

func daemonTelling(t *testing.T, rf *ringfence.Client, log *slog.Logger) (stop func()) {
	t.Helper()
	return runs(t, func(ctx context.Context) error {
		return push.Serve(ctx, rf, &push.ServeOptions{Config: push.Config{AllowNet: loopback, Logger: log}})
	})
}

// daemonWithin is daemon with limits of endpoints.
func daemonWithin(t *testing.T, rf *ringfence.Client, limits map[string]push.Limits) {
	t.Helper()
	runs(t, func(ctx context.Context) error {
		return push.Serve(ctx, rf, &push.ServeOptions{Config: push.Config{AllowNet: loopback}, Endpoints: limits})
	})
}

// runs calls f until the test ends, or the returned function is called.
func runs(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- f(ctx) }() // joined by stop
	stop = sync.OnceFunc(func() {
		cancel()
		must(t, <-over)
	})
	t.Cleanup(stop)
	return stop
}

func produce(t *testing.T, rf *ringfence.Client, topic, key string, values ...string) {
	t.Helper()
	for _, v := range values {
		_, err := rf.Produce(t.Context(), topic, ringfence.Message{Key: []byte(key), Value: []byte(v)})
		must(t, err)
	}
}

func subscribed(t *testing.T, rf *ringfence.Client, name, url string) {
	t.Helper()
	_, err := rf.Admin().CreateSubscription(t.Context(), name, admin.SubscriptionConfig{
		Topic: "payments", Retry: admin.Retry{Initial: 5 * time.Millisecond, Max: 20 * time.Millisecond, Attempts: 1_000_000}, Hold: 50 * time.Millisecond,
		Endpoint: admin.EndpointConfig{URL: url},
	})
	must(t, err)
}

// One daemon delivers what has an endpoint, also what is made later, and ends what is deleted. One whose
// endpoint nobody may reach stops no other.
func TestServeFollowsTheSubscriptions(t *testing.T) {
	t.Parallel()
	rf := client(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 2}))
	var in inbox
	at := receiver(t, in.ServeHTTP)
	subscribed(t, rf, "forbidden", "http://10.0.0.1/")
	subscribed(t, rf, "first", at)
	_, err := rf.Admin().CreateSubscription(t.Context(), "none", admin.SubscriptionConfig{Topic: "payments"})
	must(t, err)
	daemon(t, rf)
	produce(t, rf, "payments", "k", "1", "2")
	eventually(t, "the records of the first", func() bool { return len(in.has("first/k")) == 2 })
	subscribed(t, rf, "second", at)
	eventually(t, "the records of the second", func() bool { return len(in.has("second/k")) == 2 })
	must(t, rf.Admin().DeleteSubscription(t.Context(), "first", &admin.DeleteSubscriptionOptions{Force: true}))
	produce(t, rf, "payments", "k", "3")
	eventually(t, "the third record of the second", func() bool { return len(in.has("second/k")) == 3 })
	subscribed(t, rf, "first", at)
	eventually(t, "the records of the first that was made anew", func() bool { return len(in.has("first/k")) == 3 })
	if got := in.has("none/k"); len(got) > 0 {
		t.Errorf("%q of a subscription without an endpoint", got)
	}
}

// A key that fails holds back nothing else, and comes in order when it is taken. An endpoint that is down
// for all loses nothing and mixes nothing up.
func TestAKeyThatFailsAndAnEndpointThatIsDownKeepTheOrder(t *testing.T) {
	t.Parallel()
	rf := client(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 2}))
	var in inbox
	in.set(func(key, value string) int {
		if key == "billing/bad" && value == "1" {
			return http.StatusTooManyRequests
		}
		return 0
	})
	subscribed(t, rf, "billing", receiver(t, in.ServeHTTP))
	stop := daemon(t, rf)
	daemon(t, rf)
	var all []string
	for i := range 40 {
		all = append(all, strconv.Itoa(i))
		produce(t, rf, "payments", "bad", all[i])
		produce(t, rf, "payments", "good", all[i])
	}
	eventually(t, "all of the good key", func() bool { return len(in.has("billing/good")) == 40 })
	if got := in.has("billing/bad"); strings.Join(got, " ") != "0" {
		t.Errorf("of the key that fails %q was delivered", got)
	}
	in.set(func(string, string) int { return http.StatusServiceUnavailable })
	for i := range 10 {
		all = append(all, strconv.Itoa(40+i))
		produce(t, rf, "payments", "bad", all[40+i])
		produce(t, rf, "payments", "good", all[40+i])
	}
	stop() // the other one takes over
	in.set(nil)
	for _, key := range []string{"billing/good", "billing/bad"} {
		eventually(t, "all of "+key, func() bool { return len(in.has(key)) == 50 })
		if got := in.has(key); !slices.Equal(got, all) {
			t.Errorf("%s came as %q", key, got)
		}
	}
}

// The endpoint wants nothing more: nobody goes on asking, and nothing is given up.
func TestAnEndpointThatIsGoneIsAskedNoMoreUntilSomebodyResumes(t *testing.T) {
	t.Parallel()
	rf := client(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 1}))
	var in inbox
	in.set(func(string, string) int { return http.StatusGone })
	subscribed(t, rf, "billing", receiver(t, in.ServeHTTP))
	_, err := rf.Admin().AlterSubscription(t.Context(), "billing", func(c *admin.SubscriptionConfig) error {
		c.Retry.Attempts = 1 // which that answer takes none of
		return nil
	}, nil)
	must(t, err)
	told := make(chan ringfence.Failure, 100)
	runs(t, func(ctx context.Context) error {
		return push.Serve(ctx, rf, &push.ServeOptions{Config: push.Config{AllowNet: loopback}, Subscribe: ringfence.SubscribeOptions{Failed: func(f ringfence.Failure) { told <- f }}})
	})
	produce(t, rf, "payments", "k", "1", "2")
	paused := func() string {
		d, err := rf.Admin().GetSubscription(t.Context(), "billing")
		if err != nil || d.Paused == nil {
			return ""
		}
		return d.Paused.By + ": " + d.Paused.Reason
	}
	eventually(t, "the pause", func() bool {
		p := paused()
		return strings.HasPrefix(p, subscription.ByEndpoint+": ") && strings.Contains(p, "410 Gone")
	})
	eventually(t, "that it is told", func() bool {
		f := <-told
		return f.Outcome == ringfence.Paused && strings.Contains(f.Err.Error(), "410 Gone")
	})
	in.set(nil)
	_, err = rf.Admin().ResumeSubscription(t.Context(), "billing")
	must(t, err)
	eventually(t, "both records", func() bool { return len(in.has("billing/k")) == 2 })
	if got := in.has("billing/k"); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("they came as %q", got)
	}
}

// An answer to a request that began before the subscription was resumed may be from before the endpoint was mended.
func TestAnAnswerFromBeforeAResumePausesNothing(t *testing.T) {
	t.Parallel()
	rf := client(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 1}))
	came, answer := make(chan struct{}), make(chan struct{})
	var mended atomic.Bool
	var slow, taken atomic.Int64
	subscribed(t, rf, "billing", receiver(t, func(w http.ResponseWriter, r *http.Request) {
		ok := mended.Load()
		if r.Header.Get("Ringfence-Key") == "slow" && slow.Add(1) == 1 {
			close(came)
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
		if !ok {
			w.WriteHeader(http.StatusGone)
			return
		}
		taken.Add(1)
	}))
	daemon(t, rf)
	produce(t, rf, "payments", "slow", "1")
	<-came
	produce(t, rf, "payments", "fast", "1")
	paused := func() bool {
		d, err := rf.Admin().GetSubscription(t.Context(), "billing")
		must(t, err)
		return d.Paused != nil
	}
	eventually(t, "the pause", paused)
	mended.Store(true)
	_, err := rf.Admin().ResumeSubscription(t.Context(), "billing")
	must(t, err)
	eventually(t, "what was answered first", func() bool { return taken.Load() == 1 })
	close(answer)
	eventually(t, "what was answered late", func() bool { return taken.Load() == 2 })
	if paused() {
		t.Error("the late answer has paused it again")
	}
}

// Before the endpoint has taken a record, 401, 403 and 404 pause the subscription, and no record loses an attempt or is
// given up. After that they are about the record.
func TestARefusalOfTheFirstRecordsPausesTheSubscription(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		rf := client(t)
		must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 2}))
		var in inbox
		in.set(func(string, string) int { return code })
		_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{
			Topic: "payments", Retry: admin.Retry{Initial: time.Millisecond, Max: time.Millisecond, Attempts: 1}, Hold: -1,
			Endpoint: admin.EndpointConfig{URL: receiver(t, in.ServeHTTP)},
		})
		must(t, err)
		daemon(t, rf)
		for i := range 20 {
			produce(t, rf, "payments", strconv.Itoa(i), "1")
		}
		get := func() *api.Subscription {
			d, err := rf.Admin().GetSubscription(t.Context(), "billing")
			must(t, err)
			return d
		}
		eventually(t, "the pause", func() bool { return get().Paused != nil })
		if p := get().Paused; p.By != subscription.ByEndpoint || !strings.Contains(p.Reason, strconv.Itoa(code)) {
			t.Errorf("paused: %+v; expected the answer %d", p, code)
		}
		_, err = rf.Admin().ResumeSubscription(t.Context(), "billing")
		must(t, err)
		eventually(t, "the second pause", func() bool { return get().Paused != nil })
		in.set(nil)
		_, err = rf.Admin().ResumeSubscription(t.Context(), "billing") // once is enough: an answer of before that comes late pauses nothing
		must(t, err)
		took := func() (n int) {
			for i := range 20 {
				n += len(in.has("billing/" + strconv.Itoa(i)))
			}
			return n
		}
		eventually(t, "all records", func() bool { return took() == 20 })
		eventually(t, "that it has taken some", func() bool { return get().TakenAt != "" })
		in.set(func(string, string) int { return code })
		produce(t, rf, "payments", "k", "1")
		eventually(t, "a dead letter", func() bool {
			list, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
			must(t, err)
			return len(list) == 1 && list[0].KeyText() == "k"
		})
		if p := get().Paused; p != nil {
			t.Errorf("paused, though it has taken records: %+v", p)
		}
	}
}

// raw is a client and the registry below it.
func raw(t *testing.T) (*ringfence.Client, *registry.Registry) {
	t.Helper()
	log, reg := memlog.NewStore(nil), registry.New(memregistry.New())
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "raw:", Registry: "raw:", Backends: []ringfence.Backend{{
		Scheme:       "raw",
		OpenLog:      func(context.Context, *url.URL, driver.Options) (*commitlog.Log, error) { return log.Open(), nil },
		OpenRegistry: func(context.Context, *url.URL, registrydriver.Options) (*registry.Registry, error) { return reg, nil },
	}}})
	must(t, err)
	t.Cleanup(func() { must(t, rf.Close()) })
	return rf, reg
}

// A changed definition is delivered as it is now. One that nobody can read ends nothing, and hides none.
func TestServeFollowsChangesAndADamagedDefinitionStopsNoOther(t *testing.T) {
	t.Parallel()
	rf, reg := raw(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 1}))
	var old, in inbox
	subscribed(t, rf, "billing", receiver(t, old.ServeHTTP))
	daemon(t, rf)
	produce(t, rf, "payments", "k", "1")
	eventually(t, "the first record", func() bool { return len(old.has("billing/k")) == 1 })

	_, err := reg.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "subscriptions/another", Value: []byte("{")}}})
	must(t, err)
	at := receiver(t, in.ServeHTTP)
	e, err := reg.Get(t.Context(), "subscriptions/billing")
	must(t, err)
	d, err := rf.Admin().GetSubscription(t.Context(), "billing")
	must(t, err)
	text := strings.Replace(string(e.Value), d.Endpoint.URL, at, 1)
	_, err = reg.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: e.Key, Value: []byte(text)}}})
	must(t, err)
	subscribed(t, rf, "later", at)
	eventually(t, "the record of the later one", func() bool { return len(in.has("later/k")) == 1 })
	n := 1
	eventually(t, "a record at the new endpoint", func() bool {
		n++
		produce(t, rf, "payments", "k", strconv.Itoa(n))
		return len(in.has("billing/k")) > 0
	})
	eventually(t, "all records", func() bool { return len(old.has("billing/k"))+len(in.has("billing/k")) >= n })
}

// A registry that gives a definition as damaged is no word that its subscription is gone.
func TestADefinitionThatCanNotBeReadEndsNothing(t *testing.T) {
	t.Parallel()
	rf, reg := raw(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 1}))
	var in inbox
	subscribed(t, rf, "billing", receiver(t, in.ServeHTTP))
	told := make(chan struct{}, 1000)
	daemonTelling(t, rf, slog.New(slog.NewTextHandler(writer(func(line []byte) {
		if bytes.Contains(line, []byte("can be read")) {
			told <- struct{}{}
		}
	}), nil)))
	produce(t, rf, "payments", "k", "1")
	eventually(t, "the first record", func() bool { return len(in.has("billing/k")) == 1 })
	_, err := reg.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "subscriptions/billing", Value: []byte("{")}}})
	must(t, err)
	<-told
	for i := range 20 { // some looks later
		produce(t, rf, "payments", "k", strconv.Itoa(2+i))
		eventually(t, "the next record", func() bool { return len(in.has("billing/k")) == 2+i })
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

func TestOneWhoIsToldWhatToSignWithNeedsTheFile(t *testing.T) {
	t.Parallel()
	rf := client(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 1}))
	for want, e := range map[string]admin.EndpointConfig{
		"http:// or https://": {URL: "ftp://example.com"},
		"absolute path":       {URL: "https://example.com", SecretFile: "secret"},
		"time-out":            {URL: "https://example.com", Timeout: 2 * time.Hour},
		"expected http":       {Timeout: time.Second},
	} {
		_, err := rf.Admin().CreateSubscription(t.Context(), "s", admin.SubscriptionConfig{Topic: "payments", Endpoint: e})
		if !errors.Is(err, ringfence.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; expected %q", e, err, want)
		}
	}
	d, err := rf.Admin().CreateSubscription(t.Context(), "s", admin.SubscriptionConfig{
		Topic: "payments", Endpoint: admin.EndpointConfig{URL: "https://example.com/?key=hush", SecretFile: "/nowhere/secret", Timeout: 7 * time.Second},
	})
	must(t, err)
	if d.Endpoint.TimeoutMS != 7000 {
		t.Errorf("%+v", d.Endpoint)
	}
	if _, err := push.For(rf, d, push.Config{}); !errors.Is(err, ringfence.ErrInvalid) || !strings.Contains(err.Error(), "/nowhere/secret") {
		t.Errorf("without its secret: %v", err)
	}
	if err := push.Serve(t.Context(), rf, &push.ServeOptions{Config: push.Config{TokenFile: "/nowhere/tokens"}}); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("without the tokens: %v", err)
	}
}
