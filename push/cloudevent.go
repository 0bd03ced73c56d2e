package push

import (
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ringfence/ringfence"
)

const eventType = "ringfence.record" // of a record without one

// event makes a request a CloudEvent 1.0 in binary mode: the value is its data, Content-Type the
// form of the data, and the attributes are headers. A record that is a whole event already, in
// structured or batched mode, is left as it is.
func event(f *fields, m *ringfence.Message) {
	if strings.HasPrefix(strings.ToLower(f.h["Content-Type"][0]), "application/cloudevents") {
		return
	}
	f.set("Ce-Specversion", "1.0")
	f.set("Ce-Id", f.h["Webhook-Id"][0])
	f.set("Ce-Source", "/ringfence/topics/"+attribute(url.PathEscape(m.Topic)))
	if at := m.Timestamp.UTC(); at.Year() >= 0 && at.Year() <= 9999 { // else RFC 3339 can't say it
		f.set("Ce-Time", at.Format(time.RFC3339Nano))
	}
	kind := eventType
	for _, r := range m.Headers {
		if value := attribute(string(r.Value)); r.Name == "ce_type" && value != "" {
			kind = value // as the binding for Kafka writes it
		}
	}
	f.set("Ce-Type", kind)
	if key := attribute(string(m.Key)); key != "" {
		f.set("Ce-Partitionkey", key)
	}
}

// attribute writes a text as CloudEvents has it in a header of HTTP, with everything beyond visible
// ASCII, quotes and percent signs escaped; "" for what is no such text, or longer than a key may be.
func attribute(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) || len(s) > longestKey {
		return ""
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	if b.Len() > longestKey {
		return ""
	}
	return b.String()
}
