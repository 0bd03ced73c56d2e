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

// An attribute that receivers would refuse is left out: a key that is no text or longer than a key may be when it is
// escaped, a time that RFC 3339 can't say. An event has a type whatever its record says, and a whole event stays as it is.
func TestEventHasOnlyAttributesThatReceiversTake(t *testing.T) {
	t.Parallel()
	key := func(key string) ringfence.Message { return ringfence.Message{Key: []byte(key)} }
	of := func(name, value string) ringfence.Message {
		return ringfence.Message{Headers: []ringfence.Header{{Name: name, Value: []byte(value)}}}
	}
	for _, c := range []struct {
		m          ringfence.Message
		name, want string
	}{
		{key(""), "ce-partitionkey", ""},
		{key("\xff"), "ce-partitionkey", ""},
		{key("a\r\nb: c"), "ce-partitionkey", ""},
		{key(strings.Repeat("k", longestKey)), "ce-partitionkey", strings.Repeat("k", longestKey)},
		{key(strings.Repeat("k", longestKey+1)), "ce-partitionkey", ""},
		{key(strings.Repeat("%", longestKey/3)), "ce-partitionkey", strings.Repeat("%25", longestKey/3)},
		{key(strings.Repeat("%", longestKey/3+1)), "ce-partitionkey", ""},
		{ringfence.Message{Timestamp: time.UnixMilli(-1 << 60)}, "ce-time", ""},
		{ringfence.Message{Timestamp: time.UnixMilli(1 << 60)}, "ce-time", ""},
		{of("ce_type", ""), "ce-type", eventType},
		{of("ce_type", "\xff"), "ce-type", eventType},
		{of("ce_type", "paid"), "ce-type", "paid"},
		{of("content-type", "application/cloudevents+json"), "ce-specversion", ""},
	} {
		c.m.Topic = "orders"
		if got := strings.Join(header("billing", &c.m, true).Values(c.name), "|"); got != c.want {
			t.Errorf("key %.20q, headers %q: %s is %.20q; expected %.20q", c.m.Key, c.m.Headers, c.name, got, c.want)
		}
	}
}
