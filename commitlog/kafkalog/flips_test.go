package kafkalog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// flips is a network that changes one answer, outside of what a checksum covers.
type flips struct {
	mu   sync.Mutex
	flip func(kmsg.Response) bool // tells whether it changed the answer; nil: done
	on   bool                     // it changes one answer after the other
	done bool
}

func (l *flips) change(resp kmsg.Response) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flip == nil || !l.flip(resp) {
		return false
	}
	if l.done = true; !l.on {
		l.flip = nil
	}
	return true
}

func (l *flips) dial(ctx context.Context, network, broker string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, broker)
	if err != nil {
		return nil, err
	}
	return &flippingConn{Conn: c, l: l, asked: map[uint32][2]int16{}}, nil
}

// flippingConn gives whole answers, as they are or changed.
type flippingConn struct {
	net.Conn
	l *flips

	mu    sync.Mutex
	asked map[uint32][2]int16 // key and version, by correlation
	rest  bytes.Buffer
}

func (c *flippingConn) Write(b []byte) (int, error) {
	if len(b) >= 12 {
		c.mu.Lock()
		c.asked[binary.BigEndian.Uint32(b[8:])] = [2]int16{int16(binary.BigEndian.Uint16(b[4:])), int16(binary.BigEndian.Uint16(b[6:]))} //nolint:gosec // of the protocol
		c.mu.Unlock()
	}
	return c.Conn.Write(b)
}

func (c *flippingConn) Read(b []byte) (int, error) {
	if c.rest.Len() == 0 {
		var head [8]byte
		if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
			return 0, err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
		if _, err := io.ReadFull(c.Conn, body); err != nil {
			return 0, err
		}
		c.mu.Lock()
		asked := c.asked[binary.BigEndian.Uint32(head[4:])]
		c.mu.Unlock()
		resp := kmsg.ResponseForKey(asked[0])
		resp.SetVersion(asked[1])
		tags := 0
		if resp.IsFlexible() && asked[0] != 18 {
			tags = 1
		}
		if resp.ReadFrom(body[tags:]) == nil && c.l.change(resp) {
			body = resp.AppendTo(body[:tags])
			binary.BigEndian.PutUint32(head[:], uint32(len(body)+4)) //nolint:gosec // small
		}
		c.rest.Write(head[:])
		c.rest.Write(body)
	}
	return c.rest.Read(b)
}

// inFetch changes what one fetch brought.
func inFetch(change func(*kmsg.FetchResponseTopicPartition)) func(kmsg.Response) bool {
	return func(resp kmsg.Response) bool {
		r, ok := resp.(*kmsg.FetchResponse)
		if !ok || len(r.Topics) == 0 || len(r.Topics[0].Partitions) == 0 || len(r.Topics[0].Partitions[0].RecordBatches) == 0 {
			return false
		}
		change(&r.Topics[0].Partitions[0])
		return true
	}
}

// flipBase flips bits in the base offset of the first batch of a fetch.
func flipBase(bits int64) func(kmsg.Response) bool {
	return inFetch(func(p *kmsg.FetchResponseTopicPartition) {
		b := p.RecordBatches
		binary.BigEndian.PutUint64(b, binary.BigEndian.Uint64(b)^uint64(bits)) //nolint:gosec // of the protocol
	})
}

// firstIs changes where a partition begins.
func firstIs(at int64) func(kmsg.Response) bool {
	return func(resp kmsg.Response) bool {
		r, ok := resp.(*kmsg.ListOffsetsResponse)
		if !ok || len(r.Topics) == 0 || len(r.Topics[0].Partitions) == 0 || r.Topics[0].Partitions[0].Offset != 0 {
			return false
		}
		r.Topics[0].Partitions[0].Offset = at
		return true
	}
}

// One answer is changed on the wire and all others are right: no record may be skipped, given at another
// offset, or out of reach from then on.
func TestReadSkipsNoRecordWhenABitFlips(t *testing.T) {
	t.Parallel()
	l, h := retained(t, driver.TopicConfig{})
	const records = 24
	h.fill(t, records, 10, func(int) int64 { return 0 })
	for name, flip := range map[string]func(kmsg.Response) bool{
		"bit 2 of a base offset":                 flipBase(4),
		"bit 60 of a base offset":                flipBase(1 << 60),
		"the sign of a base offset":              flipBase(-1 << 63),
		"the log begins above the end":           firstIs(1 << 60),
		"the log begins below zero":              firstIs(-1 << 60),
		"the log begins above what is read":      inFetch(func(p *kmsg.FetchResponseTopicPartition) { p.LogStartOffset = 1 << 60 }),
		"the log ends far above what there is":   inFetch(func(p *kmsg.FetchResponseTopicPartition) { p.LastStableOffset = 1 << 60 }),
		"a fetch that has something has nothing": inFetch(func(p *kmsg.FetchResponseTopicPartition) { p.RecordBatches = nil }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way := &flips{flip: flip}
			c := Config{Brokers: l.c.Brokers, Prefix: l.c.Prefix, Client: []kgo.Opt{kgo.Dialer(way.dial)}}
			other, err := open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			topic, err := other.OpenTopic(t.Context(), "t")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			b, err := topic.Bounds(ctx, 0)
			if err != nil || b.First != 0 || b.Next != records {
				t.Fatalf("the bounds are %v, %v", b, err)
			}
			var got []driver.Record
			for next := b.First; next < records; {
				if err := topic.Wait(ctx, 0, next); err != nil {
					t.Fatalf("wait at %d: %v", next, err)
				}
				got, next, err = topic.Read(ctx, driver.ReadRequest{Offset: next, MaxBytes: 50}, got)
				if err != nil && !errors.Is(err, fault.Unavailable) {
					t.Fatalf("read at %d: %v", next, err)
				}
			}
			for i, r := range got {
				if r.Offset != int64(i) {
					t.Errorf("record %d stands at offset %d", i, r.Offset)
				}
			}
			if len(got) != records || !way.done {
				t.Errorf("%d records of %d; a bit was flipped: %v", len(got), records, way.done)
			}
		})
	}
}

// An answer without records would make the reader wait for ever.
func TestReadFailsWhenAnswersKeepDiffering(t *testing.T) {
	t.Parallel()
	l, h := retained(t, driver.TopicConfig{})
	h.fill(t, 3, 10, func(int) int64 { return 0 })
	asked := int64(0)
	way := &flips{on: true, flip: func(resp kmsg.Response) bool {
		flipped := flipBase(asked + 1)(resp)
		if flipped {
			asked++
		}
		return flipped
	}}
	other, err := open(t.Context(), Config{Brokers: l.c.Brokers, Prefix: l.c.Prefix, Client: []kgo.Opt{kgo.Dialer(way.dial)}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	topic, err := other.OpenTopic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	if got, next, err := topic.Read(t.Context(), driver.ReadRequest{MaxBytes: 50}, nil); !errors.Is(err, fault.Unavailable) || len(got) > 0 || next != 0 {
		t.Errorf("%d records, next %d, %v; expected that the log is unavailable", len(got), next, err)
	}
}

func TestLongPollTakesNoGap(t *testing.T) {
	t.Parallel()
	b := builder{}
	b.reset(nil)
	b.add(&driver.Record{Value: []byte("v")}, 1, driver.Header{})
	raw := b.finish(nil, 1, 0, 0)
	for base, taken := range map[int64]bool{7: true, 8: false, 1 << 60: false, 6: false} {
		binary.BigEndian.PutUint64(raw, uint64(base)) //nolint:gosec // not below zero
		f := &feed{start: 7, end: 7}
		p := &partition{read: reads{feeds: []*feed{f}}}
		p.take(&kmsg.FetchResponseTopicPartition{RecordBatches: raw, LastStableOffset: 8}, 7)
		if (len(f.spans) > 0) != taken || p.read.end != 8 {
			t.Errorf("a batch at %d behind offset 7: taken %v, expected %v; the end is %d", base, len(f.spans) > 0, taken, p.read.end)
		}
	}
}
