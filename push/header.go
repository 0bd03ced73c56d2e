package push

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence"
)

// The headers of a request. Those of the record follow under ownPrefix; one that HTTP can't carry as
// it is comes in encodedHeader, as base64 of the name, a colon, and base64 of the value.
const (
	ownPrefix     = "Ringfence-Header-"
	encodedHeader = "Ringfence-Encoded-Header"
	omittedHeader = "Ringfence-Headers-Omitted" // the number of the record's headers without room
	keyHeader     = "Ringfence-Key"
	keyEncoding   = "Ringfence-Key-Encoding" // base64, or sha256: the key is longer than longestKey, and this is its hash in hex
)

// What servers take starts at 8 KiB for one header, and at some more for all of them.
const (
	longestKey     = 4 << 10
	longestOwn     = 7 << 10
	ownHeaders     = 100
	ownHeaderBytes = 16 << 10
	longestState   = 512 // of tracestate
	longestType    = 256
)

// header makes the headers about a record. All names and values that come from the record are checked,
// or encoded.
func header(subscription string, m *ringfence.Message, cloudEvent bool) http.Header {
	f := fields{h: make(http.Header, 18), values: make([]string, 0, 18)}
	f.set("Ringfence-Subscription", legible(subscription))
	f.set("Ringfence-Topic", legible(m.Topic))
	f.set("Ringfence-Storage", strconv.Itoa(m.Storage))
	f.set("Ringfence-Partition", strconv.Itoa(m.Partition))
	f.set("Ringfence-Offset", strconv.FormatInt(m.Offset, 10))
	f.set("Ringfence-Attempt", strconv.Itoa(m.Attempt))
	f.set("Ringfence-Epoch", strconv.FormatInt(m.Epoch, 10))
	if t := m.Token(); t != "" {
		f.set("Ringfence-Token", t)
	}
	f.set("User-Agent", "Ringfence")
	f.set("Content-Type", contentType(m.Headers))
	f.set("Webhook-Id", id(subscription, m))
	switch key := string(m.Key); {
	case m.Key == nil:
	case len(key) > longestKey:
		sum := sha256.Sum256(m.Key)
		f.set(keyHeader, hex.EncodeToString(sum[:]))
		f.set(keyEncoding, "sha256")
	case plain(key):
		f.set(keyHeader, key)
	default:
		f.set(keyHeader, base64.StdEncoding.EncodeToString(m.Key))
		f.set(keyEncoding, "base64")
	}
	if cloudEvent {
		event(&f, m)
	}
	own(f.h, m.Headers)
	trace(f.h, m.Headers)
	return f.h
}

// fields are headers whose names are written in canonical form here; their values share an array,
// since every delivery has a dozen of them.
type fields struct {
	h      http.Header
	values []string
}

func (f *fields) set(name, value string) {
	f.values = append(f.values, value)
	n := len(f.values)
	f.h[name] = f.values[n-1 : n : n]
}

// own adds the headers of a record, as many as there is room for.
func own(h http.Header, all []ringfence.Header) {
	room, took := ownHeaderBytes, 0
	for _, r := range all {
		name, value := ownPrefix+r.Name, string(r.Value)
		if len(r.Name)+len(r.Value) > longestOwn || took == ownHeaders {
			continue
		}
		if !token(r.Name) || !plain(value) {
			name, value = encodedHeader, base64.StdEncoding.EncodeToString([]byte(r.Name))+":"+base64.StdEncoding.EncodeToString(r.Value)
		}
		if size := len(name) + len(value); size <= min(longestOwn, room) {
			h.Add(name, value)
			room -= size
			took++
		}
	}
	if left := len(all) - took; left > 0 {
		h.Set(omittedHeader, strconv.Itoa(left))
	}
}

var traceParent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// trace passes on the W3C trace context of a record, if it is whole.
func trace(h http.Header, all []ringfence.Header) {
	parent, state := "", ""
	for _, r := range all {
		switch value := string(r.Value); {
		case strings.EqualFold(r.Name, "traceparent"):
			if parent != "" || !traceParent.MatchString(value) {
				return
			}
			parent = value
		case strings.EqualFold(r.Name, "tracestate"):
			if state != "" {
				state += ","
			}
			state += value
		}
	}
	if parent == "" {
		return
	}
	h.Set("Traceparent", parent)
	if state != "" && len(state) <= longestState && plain(state) {
		h.Set("Tracestate", state)
	}
}

// contentType is the content type that the record gives its value.
func contentType(all []ringfence.Header) string {
	for _, r := range all {
		if value := string(r.Value); strings.EqualFold(r.Name, "content-type") && len(value) <= longestType && plain(value) {
			if _, _, err := mime.ParseMediaType(value); err == nil {
				return value
			}
		}
	}
	return "application/octet-stream"
}

// id names a record for ever, also when its place is used again by a topic that was made anew: a
// receiver recognizes a repeated delivery by it. It has no full stop, which ends it where it is
// signed.
func id(subscription string, m *ringfence.Message) string {
	b := make([]byte, 0, 256)
	for _, s := range []string{subscription, m.Topic} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	for _, n := range []int64{int64(m.Storage), int64(m.Partition), m.Offset, m.Timestamp.UnixMilli()} {
		b = binary.AppendVarint(b, n)
	}
	sum := sha256.Sum256(b)
	return string(hex.AppendEncode([]byte("msg_"), sum[:16]))
}

// plain reports whether a text may stand in a header as it is, and comes out as it was.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return !strings.HasPrefix(s, " ") && !strings.HasSuffix(s, " ")
}

// token reports whether a text may be part of the name of a header (RFC 9110, 5.6.2).
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// legible keeps a name of ours as it is, and quotes anything else.
func legible(s string) string {
	if plain(s) {
		return s
	}
	return strconv.QuoteToASCII(s)
}
