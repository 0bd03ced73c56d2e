package pulsarlog

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// A record is a plain Pulsar message: key, payload, properties, event time. Properties of our own
// say only what a plain message can't.
const (
	// ownPrefix starts the names of these properties; a header that starts so travels in headersProperty.
	ownPrefix = "ringfence."
	// keyProperty is the key in base64 when it is empty or not UTF-8.
	keyProperty = ownPrefix + "key"
	// headersProperty has all headers when properties would lose their order, their repetitions or their bytes.
	headersProperty = ownPrefix + "headers"
	// sealProperty marks the message that wakes readers for a seal. It is not a record.
	sealProperty = ownPrefix + "seal"
)

// encode makes a message of a record. It copies what it keeps: the client holds the message until
// it was sent.
func encode(r *driver.Record) *pulsar.ProducerMessage {
	m := &pulsar.ProducerMessage{Payload: bytes.Clone(r.Value)}
	if m.Payload == nil {
		m.Payload = []byte{}
	}
	if r.Timestamp > 0 {
		m.EventTime = time.UnixMilli(r.Timestamp)
	}
	property := func(name, value string) {
		if m.Properties == nil {
			m.Properties = map[string]string{}
		}
		m.Properties[name] = value
	}
	switch {
	case r.Key == nil:
	case len(r.Key) > 0 && utf8.Valid(r.Key):
		m.Key = string(r.Key)
	default:
		m.Key = base64.StdEncoding.EncodeToString(r.Key)
		property(keyProperty, m.Key)
	}
	plain := true
	for i, h := range r.Headers {
		plain = plain && (i == 0 || r.Headers[i-1].Name < h.Name)
		if len(h.Name) == 0 || len(h.Name) >= len(ownPrefix) && h.Name[:len(ownPrefix)] == ownPrefix || !utf8.ValidString(h.Name) || !utf8.Valid(h.Value) {
			plain = false
			continue
		}
		property(h.Name, string(h.Value))
	}
	if !plain {
		property(headersProperty, encodeHeaders(r.Headers))
	}
	return m
}

// decode makes a record of a message; record is false for a marker of our own.
func decode(m pulsar.Message) (r driver.Record, record bool, err error) {
	props := m.Properties()
	if err := damage(m); err != nil {
		return r, false, err
	}
	if _, marker := props[sealProperty]; marker {
		return r, false, nil
	}
	r = driver.Record{Value: m.Payload(), Timestamp: m.PublishTime().UnixMilli()}
	if r.Offset, err = packID(m.ID()); err != nil {
		return r, false, err
	}
	if t := m.EventTime(); !t.IsZero() && t.UnixMilli() > 0 {
		r.Timestamp = t.UnixMilli()
	}
	if k, ok := props[keyProperty]; ok {
		if r.Key, err = base64.StdEncoding.DecodeString(k); err != nil {
			return r, false, fmt.Errorf("message %v: property %s is not base64: %w", m.ID(), keyProperty, fault.Corrupt)
		}
		if r.Key == nil {
			r.Key = []byte{}
		}
	} else if m.Key() != "" {
		r.Key = []byte(m.Key())
	}
	if h, ok := props[headersProperty]; ok {
		if r.Headers, err = decodeHeaders(h); err != nil {
			return r, false, fmt.Errorf("message %v: property %s: %w", m.ID(), headersProperty, err)
		}
		return r, true, nil
	}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		if len(name) < len(ownPrefix) || name[:len(ownPrefix)] != ownPrefix {
			r.Headers = append(r.Headers, driver.Header{Name: name, Value: []byte(props[name])})
		}
	}
	return r, true, nil
}

// wireHeader is a header in JSON, which has bytes in base64.
type wireHeader struct{ Name, Value []byte }

func encodeHeaders(headers []driver.Header) string {
	list := make([]wireHeader, len(headers))
	for i, h := range headers {
		list[i] = wireHeader{[]byte(h.Name), h.Value}
	}
	b, _ := json.Marshal(list) // which bytes can't fail
	return string(b)
}

func decodeHeaders(s string) ([]driver.Header, error) {
	var list []wireHeader
	if err := json.Unmarshal([]byte(s), &list); err != nil {
		return nil, fmt.Errorf("%w: %w", fault.Corrupt, err)
	}
	headers := make([]driver.Header, len(list))
	for i, h := range list {
		headers[i] = driver.Header{Name: string(h.Name), Value: h.Value}
	}
	return headers, nil
}

// messageBytes is at least what a record takes in an entry.
func messageBytes(r *driver.Record) int {
	n := 64 + len(r.Key) + len(r.Value)
	if !utf8.Valid(r.Key) {
		n += 2 * len(r.Key)
	}
	for _, h := range r.Headers {
		n += 40 + (len(h.Name)+len(h.Value))*5/2 // plain, and again in base64
	}
	return n
}
