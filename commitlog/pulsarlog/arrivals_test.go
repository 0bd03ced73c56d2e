package pulsarlog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// teller is a broker with one topic, whose entries it sends to each reader.
type teller struct {
	net.Listener

	entries   [][]byte
	elsewhere string // host:port of the broker that it names for each topic; "": itself

	mu     sync.Mutex
	tokens []string // of the clients that logged in
}

func newTeller(t *testing.T, b *teller) *teller {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.Listener = l
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

func number(field, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, field<<3), v)
}

func text(field uint64, v []byte) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, field<<3|2), uint64(len(v))), v...)
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
		m, err := parse("BaseCommand", in[4:4+binary.BigEndian.Uint32(in)])
		if err != nil {
			return
		}
		kind := m.value(1).Enum()
		asked := parsed{m.value(protoreflect.FieldNumber(kind)).Message()}
		var out []byte
		switch kind {
		case 2: // connect
			b.mu.Lock()
			b.tokens = append(b.tokens, string(asked.value(3).Bytes()))
			b.mu.Unlock()
			out = command(3, append(text(1, []byte("x")), number(2, 20)...), nil)
		case 4: // subscribe
			out = command(13, number(1, asked.value(5).Uint()), nil)
		case 11: // flow
			for i, e := range b.entries {
				if !sent {
					out = append(out, command(9, append(number(1, asked.value(1).Uint()), text(2, append(number(1, 7), number(2, uint64(i))...))...), e)...) //nolint:gosec // small
				}
			}
			sent = true
		case 16: // close a consumer
			out = command(13, number(1, asked.value(2).Uint()), nil)
		case 21: // how many partitions
			out = command(22, bytes.Join([][]byte{number(1, 0), number(2, asked.value(2).Uint()), number(3, 0)}, nil), nil)
		case 23: // where a topic is
			at := cmp.Or(b.elsewhere, b.Addr().String())
			out = command(24, bytes.Join([][]byte{text(1, []byte("pulsar://"+at)), number(3, 1), number(4, asked.value(2).Uint())}, nil), nil)
		default:
			return
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

func (b *teller) heard() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.tokens)
}

func (b *teller) reader(t *testing.T, config Config) (pulsar.Reader, *logins, error) {
	t.Helper()
	config.ServiceURL = "pulsar://" + b.Addr().String()
	config = config.withDefaults()
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
	return r, config.logins, err
}

// entries is a reader of a broker that has them.
func entries(t *testing.T, entries ...[]byte) pulsar.Reader {
	t.Helper()
	r, _, err := newTeller(t, &teller{entries: entries}).reader(t, Config{})
	if err != nil {
		t.Fatal(err)
	}
	return r
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
	{"it says that it has 4294967295 bytes decompressed", made([]byte{0x10, 'a'}, number(8, 1), number(9, math.MaxUint32))},
	{"its metadata is damaged", made([]byte("x"), text(4, text(1, []byte("a property without a value"))))},
	{"its metadata is damaged", joinEntry(number(2, 1), []byte("x"))},
}

// Whatever is in an entry, the client reads on: it gets what it can bear.
func TestAnEntryThatTheClientCantBearIsAnError(t *testing.T) {
	t.Parallel()
	all := [][]byte{made([]byte("first"))}
	for _, o := range invalid {
		all = append(all, o.entry)
	}
	all = append(all, made(append(one("a"), one("b")...), number(11, 2)))
	r := entries(t, all...)
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
	r := entries(t, made(nil), made(nil, number(25, 1)), made([]byte("last")))
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

// An entry that was damaged on its way is asked for again, by another reader, before it is believed.
func TestADamagedEntryIsReadTwice(t *testing.T) {
	t.Parallel()
	good := made([]byte("value"))
	bad := bytes.Clone(good)
	bad[len(bad)-1] ^= 1
	answers := [][]byte{bad, good}
	f, err := newFeed(t.Context(), func(context.Context, int64) (pulsar.Reader, error) {
		r := entries(t, answers[0])
		answers = answers[1:]
		return r, nil
	}, 7<<(entryBits+batchBits))
	if err != nil {
		t.Fatal(err)
	}
	m, _, _, err := f.next(t.Context())
	if err != nil || string(m.Payload()) != "value" || len(answers) > 0 {
		t.Errorf("%v, %v, after %d readers", m, err, 2-len(answers))
	}
}

// Whatever comes, what the client gets instead is what it can bear, and as it is.
func FuzzEntry(f *testing.F) {
	for _, o := range invalid {
		f.Add(o.entry)
	}
	f.Add(made([]byte{0x10, 'a'}, number(8, 1), number(9, 11), number(11, 1)))
	f.Add(append([]byte{0x0e, 0x02, 0, 0, 0, 0}, made(nil)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		again := bytes.Clone(b) // with the checksum that it should have
		if len(again) > 6 {
			binary.BigEndian.PutUint32(again[2:], crc32.Checksum(again[6:], castagnoli))
		}
		for _, e := range [][]byte{b, again} {
			put := vet(e)
			if put == nil {
				put = e
			}
			if more := vet(put); more != nil {
				t.Fatalf("%q becomes %q, and that %q", e, put, more)
			}
		}
	})
}

// A broker on this host, such as the end of a tunnel, names the one that has a topic; the token would follow.
func TestATokenFollowsALookupOnlyWhereItMayGo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, host   string
		strict, sent bool
	}{
		{"this host", "127.0.0.1", true, true},
		{"another host", "0.0.0.0", false, true}, // it leads here, and is none of the names that are known to
		{"another host, strict", "0.0.0.0", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			second := newTeller(t, &teller{})
			_, port, _ := net.SplitHostPort(second.Addr().String())
			first := newTeller(t, &teller{elsewhere: net.JoinHostPort(c.host, port)})
			_, logins, err := first.reader(t, Config{Token: "hunter2", Options: driver.Options{StrictTLS: c.strict}})
			if c.sent != (err == nil) {
				t.Errorf("a reader: %v", err)
			}
			if got := first.heard(); len(got) == 0 || got[0] != "hunter2" {
				t.Errorf("the broker of the URL heard %q", got)
			}
			if got := second.heard(); (len(got) > 0) != c.sent || c.sent && got[0] != "hunter2" {
				t.Errorf("the broker that was named heard %q", got)
			}
			if why := logins.explain(io.EOF); c.sent == errors.Is(why, fault.Invalid) || !c.sent && !strings.Contains(why.Error(), "broker that another one named, at 0.0.0.0") {
				t.Errorf("the error: %v", why)
			}
		})
	}
}
