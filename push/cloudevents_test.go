package push_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

var attributeName = regexp.MustCompile(`^[a-z0-9]{1,20}$`)

// asEvent reads a request as the HTTP binding of CloudEvents 1.0.2 says for binary mode (sections 3 and 3.1): each
// attribute is a header with the prefix ce-, percent-encoded; the form of the data stands in Content-Type. nil: the
// request is no event.
func asEvent(t *testing.T, h http.Header) map[string]string {
	t.Helper()
	event := map[string]string{}
	for name, values := range h {
		attribute, ok := strings.CutPrefix(strings.ToLower(name), "ce-")
		if !ok {
			continue
		}
		value, err := url.PathUnescape(values[0])
		if err != nil || len(values) != 1 || !attributeName.MatchString(attribute) || strings.ContainsFunc(values[0], func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
			t.Errorf("%s: %q is no attribute: %v", name, values, err)
		}
		event[attribute] = value
	}
	if len(event) == 0 {
		return nil
	}
	for _, required := range []string{"id", "source", "specversion", "type"} {
		if event[required] == "" {
			t.Errorf("an event without %s: %v", required, event)
		}
	}
	if _, err := url.Parse(event["source"]); err != nil || event["specversion"] != "1.0" {
		t.Errorf("an event of specversion %q with the source %q", event["specversion"], event["source"])
	}
	if _, err := time.Parse(time.RFC3339Nano, event["time"]); err != nil {
		t.Errorf("an event at %q: %v", event["time"], err)
	}
	if form := h.Get("Content-Type"); form == "" || strings.HasPrefix(form, "application/cloudevents") {
		t.Errorf("an event in binary mode with data of the form %q", form)
	}
	return event
}

// One daemon makes events of the records of one subscription, and plain requests of those of another.
func TestASubscriptionSaysWhetherItsRequestsAreCloudEvents(t *testing.T) {
	t.Parallel()
	rf := client(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 1}))
	var mu sync.Mutex
	took := map[string]http.Header{}
	at := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		took[r.URL.Path] = r.Header.Clone()
	})
	for _, path := range []string{"/event", "/plain"} {
		_, err := rf.Admin().CreateSubscription(t.Context(), path[1:], admin.SubscriptionConfig{
			Topic: "payments", Endpoint: admin.EndpointConfig{URL: at + path, CloudEvents: path == "/event"},
		})
		must(t, err)
	}
	produce(t, rf, "payments", "Euro € 50%", "1")
	daemon(t, rf)
	eventually(t, "both", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(took) == 2
	})
	mu.Lock()
	defer mu.Unlock()
	event := asEvent(t, took["/event"])
	if event["source"] != "/ringfence/topics/payments" || event["type"] != "ringfence.record" || event["partitionkey"] != "Euro € 50%" ||
		event["id"] != took["/event"].Get("Webhook-Id") {
		t.Errorf("the event is %v", event)
	}
	if event := asEvent(t, took["/plain"]); event != nil {
		t.Errorf("an event that nobody asked for: %v", event)
	}
}
