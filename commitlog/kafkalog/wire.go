package kafkalog

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ringfence/ringfence/internal/limits"
)

// Requests by their keys in the protocol.
const (
	fetchKey      = 1
	saslHandshake = 17
	apiVersions   = 18
)

// wire is a connection to a broker that may be anybody. It knows what was asked, and breaks before the
// client library has read an answer that it can't bear.
type wire struct {
	net.Conn
	requests struct { // of who writes
		header [12]byte
		got    int
		left   int
	}
	answers struct { // of who reads
		header [8]byte
		got    int
		left   int
		walk   walk
	}

	mu  sync.Mutex // of the rest; held for work in memory only
	due []due      // requests that are not answered
}

// due is a request.
type due struct {
	key, version int16
	correlation  uint32
}

// Write implements net.Conn.
func (w *wire) Write(b []byte) (int, error) {
	if err := w.asked(b); err != nil {
		return 0, err
	}
	return w.Conn.Write(b)
}

// asked takes note of requests.
func (w *wire) asked(b []byte) error {
	r := &w.requests
	for len(b) > 0 {
		if r.left > 0 {
			n := min(r.left, len(b))
			r.left -= n
			b = b[n:]
			continue
		}
		n := copy(r.header[r.got:], b)
		r.got += n
		b = b[n:]
		if r.got < len(r.header) {
			return nil
		}
		r.got = 0
		r.left = int(binary.BigEndian.Uint32(r.header[:])) - 8
		d := due{
			key:         int16(binary.BigEndian.Uint16(r.header[4:])), //nolint:gosec // as it is meant
			version:     int16(binary.BigEndian.Uint16(r.header[6:])), //nolint:gosec // as it is meant
			correlation: binary.BigEndian.Uint32(r.header[8:]),
		}
		switch _, known := shapeTexts[d.key]; {
		case !known || r.left < 0:
			return fmt.Errorf("a request of the kind %d, which a log doesn't send", d.key)
		case d.key == saslHandshake && d.version == 0:
			return refusedAnswer("it logs in as before Kafka 1.0")
		}
		w.mu.Lock()
		w.due = append(w.due, d)
		w.mu.Unlock()
	}
	return nil
}

// Read implements net.Conn.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		if err := w.heard(b[:n]); err != nil {
			return 0, fmt.Errorf("%s: %w", w.RemoteAddr(), err)
		}
	}
	return n, err
}

// heard looks at what the broker says.
func (w *wire) heard(b []byte) error {
	a := &w.answers
	for len(b) > 0 {
		if a.left == 0 {
			n := copy(a.header[a.got:], b)
			a.got += n
			b = b[n:]
			if a.got < len(a.header) {
				return nil
			}
			a.got = 0
			if err := w.begin(); err != nil {
				return err
			}
			continue
		}
		n := min(a.left, len(b))
		a.left -= n
		if err := a.walk.feed(b[:n]); err != nil {
			return err
		}
		b = b[n:]
		if a.left == 0 {
			if err := a.walk.end(); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin begins an answer, whose size and number are there.
func (w *wire) begin() error {
	a := &w.answers
	w.mu.Lock()
	defer w.mu.Unlock()
	size := int64(binary.BigEndian.Uint32(a.header[:]))
	if len(w.due) == 0 {
		return refusedAnswer("an answer of %d bytes that nobody asked for", size)
	}
	d := w.due[0]
	if w.due = w.due[1:]; len(w.due) == 0 {
		w.due = nil
	}
	most := int64(limits.KafkaAnswerBytes)
	if d.key == fetchKey {
		most = limits.KafkaFetchBytes
	}
	switch {
	case binary.BigEndian.Uint32(a.header[4:]) != d.correlation:
		return refusedAnswer("an answer to something else than was asked")
	case size > most:
		return refusedAnswer("an answer of %d bytes; at most %d are taken", size, most)
	case size < 6: // the number, and something
		return refusedAnswer("an answer of %d bytes", size)
	}
	a.left = int(size) - 4
	return a.walk.begin(d.key, d.version, a.left)
}

// guarded is a dialer whose connections are looked at.
func guarded(dial func(context.Context, string, string) (net.Conn, error)) kgo.Opt {
	return kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &wire{Conn: conn}, nil
	})
}
