package kafkalog

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/internal/memtest"
)

// fakeBroker tells its versions, as a good one does, and answers everything else as answer likes.
func fakeBroker(t *testing.T, polite bool, answer func(c net.Conn, key, version int16, correlation []byte)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				for {
					var size [4]byte
					if _, err := io.ReadFull(c, size[:]); err != nil {
						return
					}
					request := make([]byte, binary.BigEndian.Uint32(size[:]))
					if _, err := io.ReadFull(c, request); err != nil {
						return
					}
					key, version := int16(binary.BigEndian.Uint16(request)), int16(binary.BigEndian.Uint16(request[2:])) //nolint:gosec // as it is meant
					if key == apiVersions && polite {
						say(c, request[4:8], ourVersions(version))
						continue
					}
					answer(c, key, version, request[4:8])
				}
			})
		}
	})
	return l.Addr().String()
}

// say answers.
func say(c net.Conn, correlation, body []byte) {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(body))) //nolint:gosec // small
	_, _ = c.Write(append(append(b, correlation...), body...))
}

// ourVersions is an answer that offers every version there is.
func ourVersions(version int16) []byte {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = version
	for key := range shapeTexts {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MaxVersion = key, kmsg.ResponseForKey(key).MaxVersion()
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	return resp.AppendTo(nil)
}

// Whoever listens in the place of a Kafka ends no process and takes no memory, and what is given so much
// time takes no more.
func TestAStrangerInThePlaceOfAKafkaIsRefused(t *testing.T) {
	zeros := make([]byte, 20<<20)
	for name, c := range map[string]struct {
		polite bool
		answer func(c net.Conn, key, version int16, correlation []byte)
	}{
		"a list without room for its elements": {true, func(c net.Conn, _, _ int16, correlation []byte) {
			head := []byte{0, 0, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff} // no tags, no pause, no brokers, no name
			say(c, correlation, append(binary.AppendUvarint(head, 15<<20), zeros[:15<<20]...))
		}},
		"an answer that is larger than any": {true, func(c net.Conn, _, _ int16, correlation []byte) { say(c, correlation, zeros) }},
		"tagged fields without an end": {true, func(c net.Conn, _, _ int16, correlation []byte) {
			say(c, correlation, append([]byte{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0}, 0xff, 0xff, 0xff, 0xff, 0x0f))
		}},
		"versions of one byte":          {false, func(c net.Conn, _, _ int16, correlation []byte) { say(c, correlation, zeros[:1]) }},
		"no versions":                   {false, func(c net.Conn, _, _ int16, correlation []byte) { say(c, correlation, nil) }},
		"answers that nobody asked for": {false, func(c net.Conn, _, _ int16, correlation []byte) { say(c, []byte("none"), zeros[:100]) }},
	} {
		memtest.AtMost(t, 600<<20, name, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			l, err := open(ctx, Config{Brokers: []string{fakeBroker(t, c.polite, c.answer)}})
			if err == nil {
				t.Errorf("%s: it was opened", name)
				_ = l.Close()
			}
		})
	}
}

// A partition of less than nothing is no place in a list.
func TestAPartitionBelowZeroIsNone(t *testing.T) {
	t.Parallel()
	name := "t"
	_, err := topicsIn(&kmsg.MetadataResponse{Topics: []kmsg.MetadataResponseTopic{{Topic: &name, Partitions: []kmsg.MetadataResponseTopicPartition{{Partition: -1}, {Partition: 7}}}}})
	if err != nil {
		t.Error(err)
	}
}

// A wire lets through what belongs to a request, and nothing else.
func TestAWireKnowsWhatWasAsked(t *testing.T) {
	t.Parallel()
	request := func(key, version int16, correlation uint32) []byte {
		b := binary.BigEndian.AppendUint32(nil, 12)
		b = binary.BigEndian.AppendUint16(b, uint16(key))     //nolint:gosec // as it is meant
		b = binary.BigEndian.AppendUint16(b, uint16(version)) //nolint:gosec // as it is meant
		return append(binary.BigEndian.AppendUint32(b, correlation), 0, 0, 0, 0)
	}
	answer := func(size, correlation uint32) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, size), correlation)
	}
	w := &wire{}
	for _, b := range request(fetchKey, 4, 1) {
		if err := w.asked([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.heard(append(answer(12, 1), 0, 0, 0, 0, 0, 0, 0, 0)); err != nil || len(w.due) != 0 {
		t.Errorf("%v, and %d requests are left", err, len(w.due))
	}
	for name, c := range map[string]struct{ asked, heard []byte }{
		"nobody asked":     {nil, answer(12, 1)},
		"another one":      {request(3, 9, 1), answer(12, 2)},
		"too large":        {request(3, 9, 1), answer(16<<20+1, 1)},
		"fetch, too large": {request(fetchKey, 9, 1), answer(100<<20+1, 1)},
		"nothing":          {request(3, 9, 1), answer(4, 1)},
	} {
		w := &wire{}
		if err := w.asked(c.asked); err != nil {
			t.Error(err)
		}
		if err := w.heard(c.heard); err == nil {
			t.Errorf("%s: it was let through", name)
		}
	}
	for name, b := range map[string][]byte{"another kind": request(15, 0, 1), "an old login": request(saslHandshake, 0, 1)} {
		if err := (&wire{}).asked(b); err == nil {
			t.Errorf("%s: it was let through", name)
		}
	}
}
