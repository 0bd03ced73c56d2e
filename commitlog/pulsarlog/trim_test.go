package pulsarlog

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// late is a web service that holds one kind of request back until it is let go.
type late struct {
	real string
	what func(r *http.Request, body string) bool
	once sync.Once
	held chan struct{} // closed when the first one is here
	free chan struct{} // closed to let it go
}

func (l *late) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if l.what(r, string(body)) {
		l.once.Do(func() {
			close(l.held)
			<-l.free
		})
	}
	status, answer := (&halves{real: l.real}).pass(r, body)
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

// clientAt is another process, which asks that web service.
func clientAt(t *testing.T, u *url.URL, web string) (*commitlog.Log, *admin) {
	t.Helper()
	c := Config{ServiceURL: "pulsar://" + u.Host, AdminURL: web, Namespace: strings.TrimPrefix(u.Path, "/public/")}.withDefaults()
	client, err := c.newClient()
	if err != nil {
		t.Fatal(err)
	}
	l := newLog(c, client, c.admin(nil))
	return commitlog.New(l), l.admin
}

// Two processes trim a partition, and the one that trims less is the later, in each of its steps: what
// the other one dropped stays dropped, for everybody, and is given free.
func TestATrimThatComesLateMovesNothingBack(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]func(r *http.Request, body string) bool{
		"its offset": func(r *http.Request, body string) bool {
			return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/properties") && strings.Contains(body, "ringfence.first.0")
		},
		"its cursor": func(r *http.Request, _ string) bool { return strings.HasSuffix(r.URL.Path, "/resetcursor") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := namespace(t)
			web := &late{real: u.Query().Get("web"), what: what, held: make(chan struct{}), free: make(chan struct{})}
			server := httptest.NewServer(web)
			t.Cleanup(server.Close)
			slow, _ := clientAt(t, u, server.URL)
			quick, a := clientAt(t, u, web.real)
			if err := quick.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 1}); err != nil {
				t.Fatal(err)
			}
			var topics []*commitlog.Topic
			for _, l := range []*commitlog.Log{slow, quick} {
				topic, err := l.Topic(t.Context(), "t")
				if err != nil {
					t.Fatal(err)
				}
				topics = append(topics, topic)
			}
			var at []int64
			for i := range 6 {
				offset, err := topics[1].Append(t.Context(), 0, []commitlog.Record{{Value: fmt.Append(nil, i)}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				at = append(at, offset)
			}
			done := make(chan error, 1)
			go func() { done <- topics[0].Trim(t.Context(), 0, at[1]) }() // joined below
			select {
			case <-web.held:
			case err := <-done:
				t.Fatalf("a trim ends without what it is to be late with: %v", err)
			case <-time.After(2 * time.Minute):
				t.Fatal("a trim does not come to its step")
			}
			if err := topics[1].Trim(t.Context(), 0, at[4]); err != nil {
				t.Fatal(err)
			}
			close(web.free)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			for i, topic := range topics {
				b, err := topic.Bounds(t.Context(), 0)
				if err != nil || b.First != at[4] {
					t.Errorf("process %d sees the first offset %d, %v; it had been %d", i, b.First, err, at[4])
				}
				if recs, _, err := topic.Read(t.Context(), 0, at[1], nil, nil); !errors.Is(err, fault.OutOfRange) {
					t.Errorf("process %d reads %d records from an offset that was dropped, %v", i, len(recs), err)
				}
			}
			m, err := a.metadata(t.Context(), "t")
			if err != nil {
				t.Fatal(err)
			}
			if first, lower, err := trimmed(m, 0); first != at[4] || len(lower) > 0 || err != nil {
				t.Errorf("the topic says %d, with %q besides, %v; expected %d alone", first, lower, err, at[4])
			}
			s, err := a.stats(t.Context(), partitionName("t", 0))
			if err != nil {
				t.Fatal(err)
			}
			if lost := s.lost(); lost != at[4] {
				t.Errorf("the broker may free what is below %d; expected %d", lost, at[4])
			}
			if err := errors.Join(slow.Close(), quick.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// The highest trim counts, in whatever order they are seen, and nobody else's.
func TestTheHighestTrimCounts(t *testing.T) {
	t.Parallel()
	m := metadata{Properties: map[string]string{trimProperty(1, 7): "1", trimProperty(1, 900): "1", trimProperty(1, 89): "1", trimProperty(11, 5000): "1", holdPrefix + "g": "[0,1]"}}
	for range 20 { // orders of the map
		first, lower, err := trimmed(m, 1)
		slices.Sort(lower)
		if want := []string{trimProperty(1, 7), trimProperty(1, 89)}; first != 900 || !slices.Equal(lower, want) || err != nil {
			t.Fatalf("%d besides %q, %v; expected 900 besides %q", first, lower, err, want)
		}
	}
	if first, lower, err := trimmed(m, 0); first != 0 || len(lower) > 0 || err != nil {
		t.Errorf("a partition that was never trimmed begins at %d, %q, %v", first, lower, err)
	}
	for _, damaged := range []string{"", "x", "-1", "-1x", "007", "99999999999999999999", "+5"} {
		if first, _, err := trimmed(metadata{Properties: map[string]string{trimPrefix(1) + damaged: "1"}}, 1); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%q: %d, %v; expected ErrCorrupt", damaged, first, err)
		}
	}
}
