package pulsarlog

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/logtest"
	"github.com/ringfence/ringfence/internal/fault"
)

func TestTheHostsOfTheWebServiceAreThoseOfTheURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{ServiceURL: "pulsar://a"}, "http://a:8080/admin/v2"},
		{Config{ServiceURL: "pulsar://a:6650,b:6651"}, "http://a:8080/admin/v2 http://b:8080/admin/v2"},
		{Config{ServiceURL: "pulsar+ssl://a:6651,b:6651"}, "https://a:8443/admin/v2 https://b:8443/admin/v2"},
		{Config{ServiceURL: "pulsar://a", AdminURL: "http://b:8081"}, "http://b:8081/admin/v2"},
		{Config{ServiceURL: "pulsar://a", AdminURL: "https://b:1,c,[::1]:3/proxy/"}, "https://b:1/proxy/admin/v2 https://c/proxy/admin/v2 https://[::1]:3/proxy/admin/v2"},
	} {
		if err := c.config.Validate(); err != nil {
			t.Errorf("%+v: %v", c.config, err)
			continue
		}
		encrypted, err := c.config.tls()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.config.admin(encrypted).bases, " "); got != c.want {
			t.Errorf("%s and %q: %s; expected %s", c.config.ServiceURL, c.config.AdminURL, got, c.want)
		}
	}
}

// hosts answers for a web service of two; where has which of them was asked.
func hosts(status ...int) (w *web, where *[]string) {
	asked := []string{}
	token := func() (string, error) { return "", nil }
	return &web{bases: []string{"http://a", "http://b"}, token: token, patience: hostPatience, client: &http.Client{
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, r.URL.Host)
			switch s := status[len(asked)-1]; s {
			case 0:
				return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
			case -1:
				return nil, io.EOF
			default:
				return &http.Response{StatusCode: s, Body: http.NoBody, Request: r}, nil
			}
		}),
	}}, &asked
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOnlyTheClustersOwnAnswerEndsTheRoundOfHosts(t *testing.T) {
	t.Parallel()
	const none = -100
	for _, c := range []struct {
		method        string
		first, second int
		want          error
	}{
		{http.MethodGet, 200, none, nil},
		{http.MethodGet, 404, none, fault.NotFound},
		{http.MethodPut, 409, none, fault.Conflict},
		{http.MethodPut, 412, none, fault.Invalid},
		{http.MethodDelete, 404, none, fault.NotFound},
		{http.MethodGet, 503, 200, nil},
		{http.MethodGet, 500, 404, fault.NotFound},
		{http.MethodGet, 0, 204, nil},
		{http.MethodGet, -1, 503, fault.Unavailable},
		{http.MethodPut, -1, 409, fault.Conflict},
		{http.MethodDelete, 0, 404, fault.NotFound}, // nobody was asked before
		{http.MethodDelete, -1, 404, nil},           // it may have been done
		{http.MethodDelete, 503, 404, nil},
		{http.MethodDelete, 504, 503, fault.Unavailable},
	} {
		w, asked := hosts(c.first, c.second)
		err := w.call(t.Context(), c.method, "/x", "", nil, nil)
		if !errors.Is(err, c.want) {
			t.Errorf("%s answered %d, then %d: %v; expected %v", c.method, c.first, c.second, err, c.want)
		}
		want := []string{"a"}
		if c.second != none {
			want = append(want, "b")
		}
		if !slices.Equal(*asked, want) {
			t.Errorf("%s answered %d, then %d: asked %v; expected %v", c.method, c.first, c.second, *asked, want)
		}
	}
}

func TestAHostThatAnsweredIsAskedFirst(t *testing.T) {
	t.Parallel()
	w, asked := hosts(0, 200, 200, 503, 404, 200)
	for range 3 {
		_ = w.call(t.Context(), http.MethodGet, "/x", "", nil, nil)
	}
	_ = w.call(t.Context(), http.MethodGet, "/x", "", nil, nil)
	if want := "a b b b a a"; strings.Join(*asked, " ") != want {
		t.Errorf("asked %v; expected %s", *asked, want)
	}
}

// A broker sends a request on to the one that has the topic.
func TestATokenFollowsARedirectButNotOutOfTLS(t *testing.T) {
	t.Parallel()
	token := func() (string, error) { return "hunter2", nil }
	for from, want := range map[string]string{"http://a": "Bearer hunter2", "https://a": ""} {
		got := "nothing"
		client := &http.Client{CheckRedirect: redirect(false), Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "a" {
				return &http.Response{StatusCode: http.StatusTemporaryRedirect, Header: http.Header{"Location": {"http://b/x"}}, Body: http.NoBody, Request: r}, nil
			}
			got = r.Header.Get("Authorization")
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
		})}
		w := &web{bases: []string{from}, client: client, token: token, patience: hostPatience}
		if err := w.call(t.Context(), http.MethodPut, "/x", "application/json", 1, nil); err != nil || got != want {
			t.Errorf("from %s: %v, the token came as %q; expected %q", from, err, got, want)
		}
	}
}

// bad is what a host does to a request that another one then answers.
type bad struct {
	name       string
	does, asks bool // the work; whether it answers at all
	hangs      bool
}

// halves is a web service in which the first host that is asked for something is bad, and the next sound.
type halves struct {
	bad
	real string
	mu   sync.Mutex
	odd  map[string]bool
	hurt int
}

func (h *halves) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	what := r.Method + r.URL.String()
	h.odd[what] = !h.odd[what]
	first := h.odd[what]
	if first {
		h.hurt++
	}
	h.mu.Unlock()
	body, _ := io.ReadAll(r.Body) // before anything else: who does not read is not told that the client went
	status, answer := http.StatusServiceUnavailable, []byte(nil)
	if h.does || !first {
		status, answer = h.pass(r, body)
	}
	switch {
	case !first:
		w.WriteHeader(status)
		_, _ = w.Write(answer)
	case h.hangs:
		select {
		case <-r.Context().Done():
		case <-time.After(2 * time.Second):
		}
		panic(http.ErrAbortHandler)
	case !h.asks:
		panic(http.ErrAbortHandler) // the connection breaks
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// pass lets the real web service do it.
func (h *halves) pass(r *http.Request, body []byte) (status int, answer []byte) {
	out, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, h.real+r.URL.String(), strings.NewReader(string(body)))
	if err != nil {
		return http.StatusServiceUnavailable, nil
	}
	if kind := r.Header.Get("Content-Type"); kind != "" {
		out.Header.Set("Content-Type", kind)
	}
	resp, err := http.DefaultClient.Do(out)
	if err != nil {
		return http.StatusServiceUnavailable, nil
	}
	answer, _ = io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode, answer
}

// Every request of a topic's life is put to a host that fails, and then to another.
func TestALifeOfATopicThroughHostsThatFail(t *testing.T) {
	t.Parallel()
	for _, b := range []bad{
		{name: "dies before"},
		{name: "dies after having done it", does: true},
		{name: "answers 503", asks: true},
		{name: "answers 503 and has done it", does: true, asks: true},
		{name: "hangs", hangs: true},
		{name: "hangs and has done it", does: true, hangs: true},
	} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			u := namespace(t)
			h := &halves{bad: b, real: u.Query().Get("web"), odd: map[string]bool{}}
			one, other := httptest.NewServer(h), httptest.NewServer(h)
			t.Cleanup(one.Close)
			t.Cleanup(other.Close)
			live(t, u, one.URL+","+strings.TrimPrefix(other.URL, "http://"))
			if h.hurt < 10 {
				t.Errorf("%d requests were hurt", h.hurt)
			}
		})
	}
}

// A host that is not there at all, or hangs, is left out once another has answered.
func TestALifeOfATopicBehindADeadFirstHost(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts what the kernel does
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for _, dead := range []string{"127.0.0.1:1", silent.Addr().String()} {
		u := namespace(t)
		live(t, u, "http://"+dead+","+strings.TrimPrefix(u.Query().Get("web"), "http://"))
	}
}

// live makes, uses and deletes a topic through a web service.
func live(t *testing.T, u *url.URL, hosts string) {
	t.Helper()
	ns := strings.Split(strings.Trim(u.Path, "/"), "/")
	c := Config{ServiceURL: "pulsar://" + u.Host, AdminURL: hosts, Tenant: ns[0], Namespace: ns[1]}.withDefaults()
	client, err := c.newClient()
	if err != nil {
		t.Fatal(err)
	}
	a := c.admin(nil)
	a.patience = 50 * time.Millisecond
	l := commitlog.New(newLog(c, client, a))
	if err := logtest.Life(t.Context(), l); err != nil {
		t.Error(err)
	}
	if err := l.DeleteTopic(t.Context(), "t"); !errors.Is(err, fault.NotFound) {
		t.Errorf("deleted again: %v; expected that there is none", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// Whoever makes a topic at the same moment as another is told by the broker that what it stores has changed under
// it; that is no reason to give up.
func TestAStepThatAnotherTakesIsRepeated(t *testing.T) {
	t.Parallel()
	raced := "\n --- An unexpected error occurred in the server ---\n\nMessage: org.apache.bookkeeper.mledger.ManagedLedgerException$BadVersionException: Version mismatch, actual=0, expect=-1\n\nStacktrace:\n\nat x"
	body, err := json.Marshal(map[string]string{"reason": raced})
	if err != nil {
		t.Fatal(err)
	}
	answers := []error{
		statusError(http.MethodPut, "/", http.StatusInternalServerError, body),
		statusError(http.MethodPut, "/", http.StatusPreconditionFailed, []byte(`{"reason":"Subscription Busy"}`)),
		statusError(http.MethodPut, "/", http.StatusConflict, nil),
	}
	n := 0
	err = whileBusy(t.Context(), func() error { n++; return answers[n-1] })
	if !errors.Is(err, fault.Conflict) || n != len(answers) {
		t.Errorf("%v after %d tries; expected fault.Conflict after %d", err, n, len(answers))
	}
}

func TestAReasonIsShownCut(t *testing.T) {
	t.Parallel()
	for _, size := range []int{shownReason + 1, 100 * shownReason} {
		err := statusError(http.MethodGet, "/", http.StatusBadRequest, []byte(`{"reason":"`+strings.Repeat("x", size)+`"}`))
		if n := len(err.Error()); n > 2*shownReason {
			t.Errorf("a reason of %d bytes makes an error of %d", size, n)
		}
	}
	if err := statusError(http.MethodGet, "/", http.StatusBadRequest, []byte(`{"reason":"too many"}`)); !strings.Contains(err.Error(), "too many") {
		t.Error(err)
	}
}
