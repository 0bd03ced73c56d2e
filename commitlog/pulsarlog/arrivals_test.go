package pulsarlog

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// teller is a broker with one topic, whose entries it sends to each reader.
type teller struct {
	net.Listener

	entries [][]byte
}

func newTeller(t *testing.T, entries ...[]byte) *teller {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &teller{Listener: l, entries: entries}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { b.serve(c) }) // until the client is closed
		}
	})
	return b
}

func command(kind uint64, body, with []byte) []byte {
	c := append(number(1, kind), text(kind, body)...)
	b := binary.BigEndian.AppendUint32(nil, uint32(len(c)+4+len(with))) //nolint:gosec // small
	b = binary.BigEndian.AppendUint32(b, uint32(len(c)))                //nolint:gosec // small
	return append(append(b, c...), with...)
}

func (b *teller) serve(c net.Conn) {
	defer c.Close()
	sent := false
	for {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		in := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c, in); err != nil {
			return
		}
		kind, parts := fields(in[4 : 4+binary.BigEndian.Uint32(in)])
		asked, _ := fields(parts[kind[1]])
		var out []byte
		switch kind[1] {
		case 2: // connect
			out = command(3, append(text(1, []byte("x")), number(2, 20)...), nil)
		case 4: // subscribe
			out = command(13, number(1, asked[5]), nil)
		case 11: // flow
			for i, e := range b.entries {
				if !sent {
					out = append(out, command(9, append(number(1, asked[1]), text(2, append(number(1, 7), number(2, uint64(i))...))...), e)...) //nolint:gosec // small
				}
			}
			sent = true
		case 16: // close a consumer
			out = command(13, number(1, asked[2]), nil)
		case 21: // how many partitions
			out = command(22, bytes.Join([][]byte{number(1, 0), number(2, asked[2]), number(3, 0)}, nil), nil)
		case 23: // where a topic is
			out = command(24, bytes.Join([][]byte{text(1, []byte("pulsar://"+b.Addr().String())), number(3, 1), number(4, asked[2])}, nil), nil)
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

func (b *teller) reader(t *testing.T) (pulsar.Reader, error) {
	t.Helper()
	config := Config{ServiceURL: "pulsar://" + b.Addr().String()}.withDefaults()
	config.logins = newLogins(config)
	client, err := config.newClient()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r, err := client.CreateReader(pulsar.ReaderOptions{Topic: "persistent://public/default/t", StartMessageID: pulsar.EarliestMessageID(), BackoffPolicyFunc: newPauses})
	if err == nil {
		t.Cleanup(r.Close)
		if err := config.logins.arrivals.check(); err != nil {
			t.Error(err)
		}
	}
	return r, err
}

// made is an entry with an author, and what else its metadata says.
func made(payload []byte, meta ...[]byte) []byte {
	m := append(append(text(1, []byte("p")), number(2, 1)...), number(3, 1)...)
	return joinEntry(append(m, bytes.Join(meta, nil)...), payload)
}

// one is a message of a batch.
func one(value string) []byte {
	m := number(3, uint64(len(value)))
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(m))), m...), value...) //nolint:gosec // small
}

func negative(n int32) uint64 { return uint64(int64(n)) } //nolint:gosec // as the protocol has it

// invalid are entries that any producer can write, and the error of each.
var invalid = []struct {
	says  string
	entry []byte
}{
	{"it ends within message 0 of 5", made([]byte{0, 0}, number(11, 5))},
	{"it ends within message 1 of 2", made(one("a"), number(11, 2))},
	{"it ends within message 0 of 1", made([]byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3}, number(11, 1))},
	{"message 0 says that it has -7 bytes, of 3 that there are", made(append(append(binary.BigEndian.AppendUint32(nil, 11), number(3, negative(-7))...), "abc"...), number(11, 1))},
	{"message 0 says that it has 4 bytes, of 3 that there are", made([]byte("\x00\x00\x00\x02\x18\x04abc"), number(11, 1))},
	{"it says that it has -5 messages", made(one("a"), number(11, negative(-5)))},
	{"it says that it has 0 messages", made(one("a"), number(11, 0))},
	{"it says that it has 2147483647 messages", made(one("a"), number(11, math.MaxInt32))},
	{"it is encrypted", made([]byte("x"), text(13, append(text(1, []byte("k")), text(2, []byte("v"))...)))},
	{"it is one of 2 chunks of a message", made([]byte("x"), text(26, []byte("u")), number(27, 2), number(28, negative(-9)), number(29, 0))},
	{"it is one of 2147483647 chunks of a message", made([]byte("x"), text(26, []byte("u")), number(27, math.MaxInt32), number(28, 10), number(29, 0))},
	{"it says that it has 4294967295 bytes decompressed", made([]byte{0x10, 'a'}, number(8, byLZ4), number(9, math.MaxUint32))},
	{"it says that it has 4294967295 bytes decompressed", made([]byte{0x78, 0x9c}, number(8, byZlib), number(9, math.MaxUint32))},
	{"compression 77 is not known", made([]byte("x"), number(8, 77), number(9, 5))},
	{"its metadata is damaged", made([]byte("x"), text(4, text(1, []byte("a property without a value"))))},
	{"its metadata is damaged", joinEntry(number(2, 1), []byte("x"))},
}

// Whatever is in an entry, the client reads on: it gets what it can bear.
func TestAnEntryThatTheClientCantBearIsAnError(t *testing.T) {
	t.Parallel()
	entries := [][]byte{made([]byte("first"))}
	for _, o := range invalid {
		entries = append(entries, o.entry)
	}
	entries = append(entries, made(append(one("a"), one("b")...), number(11, 2)))
	r, err := newTeller(t, entries...).reader(t)
	if err != nil {
		t.Fatal(err)
	}
	next := func() pulsar.Message {
		m, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := next(); string(m.Payload()) != "first" || damage(m) != nil {
		t.Errorf("%q, %v", m.Payload(), damage(m))
	}
	for i, o := range invalid {
		m := next()
		why := damage(m)
		if why == nil || !strings.Contains(why.Error(), o.says) || m.ID().EntryID() != int64(i+1) {
			t.Errorf("%v of entry %d; expected %q of %d", why, m.ID().EntryID(), o.says, i+1)
		}
		if _, _, err := decode(m); err == nil {
			t.Errorf("%q is a record", o.says)
		}
	}
	if a, b := next(), next(); string(a.Payload())+string(b.Payload()) != "ab" {
		t.Errorf("the batch has %q and %q", a.Payload(), b.Payload())
	}
}

// A message without anything is a record, though the client takes it for a damaged one.
func TestAnEmptyMessageIsARecord(t *testing.T) {
	t.Parallel()
	r, err := newTeller(t, made(nil), made(nil, number(25, 1)), made([]byte("last"))).reader(t)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		m, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rec, isRecord, err := decode(m)
		if err != nil || !isRecord || m.ID().EntryID() != i || len(rec.Headers) > 0 {
			t.Errorf("entry %d is %+v, %t, %v; expected entry %d", m.ID().EntryID(), rec, isRecord, err, i)
		}
	}
}

// compressed are some bytes, as each of Pulsar's compressions has them.
func compressed(t testing.TB, b []byte) map[uint64][]byte {
	t.Helper()
	block := make([]byte, lz4.CompressBlockBound(len(b)))
	n, err := lz4.CompressBlock(b, block, nil)
	if err != nil {
		t.Fatal(err)
	}
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write(b)
	_ = w.Close()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	return map[uint64][]byte{byLZ4: block[:n], byZlib: z.Bytes(), byZstd: enc.EncodeAll(b, nil), bySnappy: snappy.Encode(nil, b)}
}

func TestVetDecompressesABatch(t *testing.T) {
	small := bytes.Repeat(one("value"), 100)
	for by, b := range compressed(t, small) {
		e := new(decompressor).vet(made(b, number(8, by), number(9, uint64(len(small))), number(11, 100)))
		meta, payload, err := splitEntry(e)
		if m, bad := readMetadata(meta); err != nil || bad != nil || m.uncompressed != 0 || m.messages != 100 || !bytes.Equal(payload, small) {
			t.Errorf("compression %d: %+v with %d bytes, %v, %v", by, m, len(payload), err, bad)
		}
	}
}

// An entry that was damaged on its way is asked for again, by another reader, before it is believed.
func TestADamagedEntryIsReadTwice(t *testing.T) {
	t.Parallel()
	good := made([]byte("value"))
	bad := bytes.Clone(good)
	bad[len(bad)-1] ^= 1
	brokers := []*teller{newTeller(t, bad), newTeller(t, good)}
	f, err := newFeed(t.Context(), func(context.Context, int64) (pulsar.Reader, error) {
		b := brokers[0]
		brokers = brokers[1:]
		return b.reader(t)
	}, 7<<(entryBits+batchBits))
	if err != nil {
		t.Fatal(err)
	}
	m, _, _, err := f.next(t.Context())
	if err != nil || string(m.Payload()) != "value" || len(brokers) > 0 {
		t.Errorf("%v, %v, after %d readers", m, err, 2-len(brokers))
	}
}

// Whatever comes, what the client gets instead is what it can bear, and as it is.
func FuzzEntry(f *testing.F) {
	for _, o := range invalid {
		f.Add(o.entry)
	}
	for by, b := range compressed(f, one("value")) {
		f.Add(made(b, number(8, by), number(9, 11), number(11, 1)))
	}
	f.Add(append([]byte{0x0e, 0x02, 0, 0, 0, 0}, made(nil)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		again := bytes.Clone(b) // with the checksum that it should have
		if len(again) > 6 {
			binary.BigEndian.PutUint32(again[2:], crc32.Checksum(again[6:], castagnoli))
		}
		for _, e := range [][]byte{b, again} {
			put := new(decompressor).vet(e)
			if put == nil {
				put = e
			}
			if more := new(decompressor).vet(put); more != nil {
				t.Fatalf("%q becomes %q, and that %q", e, put, more)
			}
		}
	})
}
