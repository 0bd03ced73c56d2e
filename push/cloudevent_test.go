package push

import (
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
)

func TestARequestIsACloudEventWhenThatIsAskedFor(t *testing.T) {
	t.Parallel()
	m := &ringfence.Message{Topic: "orders", Key: []byte("Euro € 50%\""), Value: []byte("{}"), Timestamp: time.Unix(1, 0),
		Headers: []ringfence.Header{{Name: "ce_type", Value: []byte("com.example.paid")}}}
	h := header("billing", m, true)
	for name, want := range map[string]string{
		"ce-specversion": "1.0", "ce-id": id("billing", m), "ce-source": "/ringfence/topics/orders", "ce-type": "com.example.paid",
		"ce-time": "1970-01-01T00:00:01Z", "ce-partitionkey": "Euro%20%E2%82%AC%2050%25%22",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if h := header("billing", m, false); h.Get("ce-id") != "" {
		t.Error("one that was not asked for")
	}
}

func TestAKeyThatIsNoTextIsNoAttribute(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "\xff", "a\r\nb: c", string(make([]byte, longestKey+1))} {
		if h := header("billing", &ringfence.Message{Topic: "orders", Key: []byte(key)}, true); len(h["Ce-Partitionkey"]) > 0 {
			t.Errorf("%.20q came as %.20q", key, h["Ce-Partitionkey"])
		}
	}
}

func TestAWholeCloudEventIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	m := &ringfence.Message{Topic: "orders", Headers: []ringfence.Header{{Name: "content-type", Value: []byte("application/cloudevents+json")}}}
	if h := header("billing", m, true); h.Get("ce-specversion") != "" {
		t.Error("an event in an event")
	}
}

func TestATimeThatRFC3339CanNotSayIsNoAttribute(t *testing.T) {
	t.Parallel()
	for _, ms := range []int64{-1 << 60, 1 << 60} {
		if h := header("billing", &ringfence.Message{Topic: "orders", Timestamp: time.UnixMilli(ms)}, true); len(h["Ce-Time"]) > 0 {
			t.Errorf("%d came as %q", ms, h["Ce-Time"])
		}
	}
}

// Receivers refuse an event without a type: an empty one is none.
func TestAnEventHasATypeWhateverItsRecordSays(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"": eventType, "\xff": eventType, "paid": "paid"} {
		m := &ringfence.Message{Topic: "orders", Headers: []ringfence.Header{{Name: "ce_type", Value: []byte(value)}}}
		if got := header("billing", m, true)["Ce-Type"]; len(got) != 1 || got[0] != want {
			t.Errorf("ce_type %q: the event is of type %q; want %q", value, got, want)
		}
	}
}

// Servers refuse a request with a header that is too long, and escaping makes one of three bytes for each.
func TestNoAttributeIsLongerThanAKeyMayBe(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int{
		strings.Repeat("k", longestKey): longestKey, strings.Repeat("k", longestKey+1): 0,
		strings.Repeat("%", longestKey/3): longestKey / 3 * 3, strings.Repeat("%", longestKey/3+1): 0,
	} {
		h := header("billing", &ringfence.Message{Topic: "orders", Key: []byte(key)}, true)
		if got := len(h.Get("Ce-Partitionkey")); got != want {
			t.Errorf("a key of %d times %.1s: an attribute of %d bytes; want %d", len(key), key, got, want)
		}
	}
}
