package pulsarlog

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// Headers that are accepted come back when they are sent again.
func FuzzHeaders(f *testing.F) {
	f.Add(encodeHeaders([]driver.Header{{Name: "b", Value: []byte("1")}, {Name: "a"}, {Name: "b", Value: []byte{0xff}}}))
	f.Add("")
	f.Add("null")
	f.Add(`[{"Name":"not base64"}]`)
	f.Fuzz(func(t *testing.T, text string) {
		headers, err := decodeHeaders(text)
		if err != nil {
			if !errors.Is(err, fault.Corrupt) {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		if again, err := decodeHeaders(encodeHeaders(headers)); err != nil || !reflect.DeepEqual(headers, again) {
			t.Fatalf("%q comes back as %q, %v", headers, again, err)
		}
	})
}

// arrived is a message as it comes from a broker.
type arrived struct {
	pulsar.Message
	sent *pulsar.ProducerMessage
}

func (m arrived) Key() string                   { return m.sent.Key }
func (m arrived) Payload() []byte               { return m.sent.Payload }
func (m arrived) Properties() map[string]string { return m.sent.Properties }
func (m arrived) EventTime() time.Time          { return m.sent.EventTime }
func (m arrived) PublishTime() time.Time        { return time.UnixMilli(1) }
func (m arrived) ID() pulsar.MessageID          { return pulsar.NewMessageID(3, 2, 1, 0) }

// A record with any bytes comes back as it was sent. A message of somebody else, with any
// properties, becomes a record or an error of a kind.
func FuzzMessage(f *testing.F) {
	f.Add([]byte("k"), []byte("v"), "name", []byte("w"), int64(7), keyProperty)
	f.Add([]byte{0xff}, []byte{}, "", []byte{0xff}, int64(-1), headersProperty)
	f.Add([]byte{}, []byte("v"), ownPrefix+"x", []byte("AQ"), int64(0), sealProperty)
	f.Fuzz(func(t *testing.T, key, value []byte, name string, header []byte, millis int64, property string) {
		r := driver.Record{Key: key, Value: value, Timestamp: millis, Headers: []driver.Header{{Name: name, Value: header}}}
		got, record, err := decode(arrived{sent: encode(&r)})
		if err != nil || !record {
			t.Fatalf("%+v comes back as %+v, %t, %v", r, got, record, err)
		}
		if !bytes.Equal(got.Key, key) || (got.Key == nil) != (key == nil) || !bytes.Equal(got.Value, value) ||
			len(got.Headers) != 1 || got.Headers[0].Name != name || !bytes.Equal(got.Headers[0].Value, header) {
			t.Fatalf("%+v comes back as %+v", r, got)
		}
		foreign := &pulsar.ProducerMessage{Key: string(key), Payload: value, Properties: map[string]string{name: string(header), property: string(header)}}
		if _, _, err := decode(arrived{sent: foreign}); err != nil && !errors.Is(err, fault.Corrupt) {
			t.Fatalf("an error without a kind: %v", err)
		}
	})
}

// A position that is accepted is the one that is printed.
func FuzzPosition(f *testing.F) {
	f.Add("12:34")
	f.Add("-1:-1")
	f.Add("1:2:3")
	f.Fuzz(func(t *testing.T, text string) {
		ledger, entry, err := parsePosition(text)
		if err != nil {
			if !errors.Is(err, fault.Corrupt) {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		if l, e, err := parsePosition(fmt.Sprintf("%d:%d", ledger, entry)); err != nil || l != ledger || e != entry {
			t.Fatalf("%q is %d:%d, which is read as %d:%d, %v", text, ledger, entry, l, e, err)
		}
		at, err := after(ledger, entry)
		if err == nil && at < 0 {
			t.Fatalf("%q is offset %d", text, at)
		}
	})
}

// A stored hold is read as what it holds at a partition, or is an error: never as nothing.
func FuzzHold(f *testing.F) {
	f.Add("[5,-1]", "[3]", 0)
	f.Add("null", "[1,2]", 1)
	f.Fuzz(func(t *testing.T, a, b string, partition int) {
		partition = min(max(partition, 0), 9)
		held, err := heldBy(metadata{Properties: map[string]string{holdPrefix + "a": a, holdPrefix + "b": b}}, partition)
		if err != nil {
			if !errors.Is(err, fault.Corrupt) {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		for _, one := range []string{a, b} {
			at, err := heldBy(metadata{Properties: map[string]string{holdPrefix + "x": one}}, partition)
			if err != nil || at >= 0 && (held < 0 || held > at) {
				t.Fatalf("both hold %d, and %q alone %d, %v", held, one, at, err)
			}
		}
	})
}
