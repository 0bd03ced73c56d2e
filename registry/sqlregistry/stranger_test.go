package sqlregistry

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/memtest"
)

// fake is a server that lets everybody in and then answers a question as it likes.
type fake struct {
	encrypted *tls.Config
	greets    []byte                    // in place of a greeting, if not nil
	before    bool                      // answer the first question, too
	answer    func(w *pieces, q string) // to what begins with SELECT
}

// pieces writes packets.
type pieces struct {
	w   io.Writer
	seq byte
	err error
}

func (p *pieces) packet(payload string) {
	if p.err != nil {
		return
	}
	n := len(payload)
	_, p.err = io.WriteString(p.w, string([]byte{byte(n), byte(n >> 8), byte(n >> 16), p.seq})+payload)
	p.seq++
}

const (
	fine   = "\x00\x00\x00\x02\x00\x00\x00"
	theEnd = "\xfe\x00\x00\x02\x00"
	column = "\x03def\x00\x00\x00\x01a\x00\x0c\x08\x00\xff\x00\x00\x00\xfd\x00\x00\x00\x00\x00"
)

// table answers with a column and rows.
func (p *pieces) table(rows ...string) {
	for _, packet := range append([]string{"\x01", column, theEnd}, rows...) {
		p.packet(packet)
	}
}

func (f *fake) start(t *testing.T) string {
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
			all.Go(func() { f.serve(c); c.Close() })
		}
	})
	return l.Addr().String()
}

func hear(r io.Reader) (seq byte, payload []byte, err error) {
	var header [4]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	payload = make([]byte, int(header[0])|int(header[1])<<8|int(header[2])<<16)
	_, err = io.ReadFull(r, payload)
	return header[3], payload, err
}

func (f *fake) serve(c net.Conn) {
	able := uint32(0x0008_a20d) // protocol 4.1, secure connections, a database, the names of plugins
	if f.encrypted != nil {
		able |= ableTLS
	}
	w := &pieces{w: c}
	if f.greets != nil {
		_, _ = c.Write(f.greets)
		return
	}
	greets := "\x0a8.0.0\x00\x01\x00\x00\x00saltsalt\x00"
	greets += string(binary.LittleEndian.AppendUint16(nil, uint16(able))) + "\x08\x02\x00" +
		string(binary.LittleEndian.AppendUint16(nil, uint16(able>>16))) + "\x15" + strings.Repeat("\x00", 10) + "saltsaltsalt\x00mysql_native_password\x00"
	w.packet(greets)
	seq, login, err := hear(c)
	if err != nil {
		return
	}
	if f.encrypted != nil {
		if len(login) != loginBytes {
			return
		}
		stream := tls.Server(c, f.encrypted)
		if stream.Handshake() != nil {
			return
		}
		c, w.w = stream, stream
		again := login
		if seq, login, err = hear(c); err != nil || !bytes.Equal(again[:4], login[:4]) {
			return
		}
	}
	w.seq = seq + 1
	w.packet(fine)
	for w.err == nil {
		_, q, err := hear(c)
		if err != nil {
			return
		}
		w.seq = 1
		switch q := string(q[1:]); {
		case q == "SELECT @@max_allowed_packet" && !f.before:
			w.table("\x0867108864", theEnd)
		case strings.HasPrefix(q, "SELECT"):
			f.answer(w, q)
		default:
			w.packet(fine)
		}
	}
}

// serverTLS is that of a server with a certificate that a client believes.
func serverTLS(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	cert, key := certificate(t, t.TempDir(), "server")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func lie(n uint64) string { return "\xfe" + string(binary.LittleEndian.AppendUint64(nil, n)) }

// tooLong is for how long no server may keep us that was given two seconds.
const tooLong = 30 * time.Second

// hostileAnswers are what made the client library panic, take gigabytes, or read for ever.
func hostileAnswers() map[string]func(*pieces, string) {
	forEver := func(first ...string) func(*pieces, string) {
		return func(w *pieces, _ string) {
			for _, p := range first[:len(first)-1] {
				w.packet(p)
			}
			for many := strings.Repeat("\x01\x00\x00\x00"+first[len(first)-1], 1<<10); w.err == nil; {
				_, w.err = io.WriteString(w.w, many)
			}
		}
	}
	return map[string]func(*pieces, string){
		"more columns than there is memory":  func(w *pieces, _ string) { w.packet(lie(1e15)) },
		"columns that take all memory":       func(w *pieces, _ string) { w.packet(lie(4e9)) },
		"a number of columns without an end": func(w *pieces, _ string) { w.packet("\xfe\x01") },
		"rows for ever":                      forEver("\x01", column, theEnd, "\x00"),
		"a row that is too short":            func(w *pieces, _ string) { w.table("\xfc") },
		"an end that is too short":           func(w *pieces, _ string) { w.table("\xfe") },
		"a column that is too short":         func(w *pieces, _ string) { w.packet("\x01"); w.packet("\x03def\x00\x00\x00\x01a\x00\x0c") },
		"an error that is too short":         func(w *pieces, _ string) { w.packet("\xff\x01") },
		"an answer that is too short":        func(w *pieces, _ string) { w.packet("\x00\x00") },
		"a packet without anything in it":    func(w *pieces, _ string) { w.packet("") },
		"packets that are joined for ever": func(w *pieces, _ string) {
			for part := make([]byte, 1<<20); w.err == nil; w.seq++ {
				_, w.err = w.w.Write([]byte{0xff, 0xff, 0xff, w.seq})
				for range 16 {
					_, _ = w.w.Write(part)
				}
			}
		},
		"a row now and then": func(w *pieces, _ string) {
			w.table("\x01x")
			for begun := time.Now(); w.err == nil && time.Since(begun) < tooLong; time.Sleep(10 * time.Millisecond) { // a server that says something now and then
				w.packet("\x01x")
			}
			w.err = io.EOF // that is enough
		},
	}
}

// Whoever listens in the place of a MariaDB ends no process, takes no memory, and is left in time, with TLS
// and without, whatever it was asked.
func TestAStrangerInThePlaceOfAMariaDBIsRefused(t *testing.T) {
	server, client := serverTLS(t)
	for name, answer := range hostileAnswers() {
		for _, encrypted := range []bool{false, true} {
			for _, before := range []bool{false, true} {
				if encrypted && before {
					continue
				}
				f := &fake{answer: answer, before: before}
				c := mysql.NewConfig()
				if encrypted {
					f.encrypted, c.TLS = server, client
				}
				c.Net, c.Addr, c.DBName, c.User = "tcp", f.start(t), "db", "rf"
				begun := time.Now()
				memtest.AtMost(t, 256<<20, name, func() {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					r, err := Open(ctx, Config{MySQL: c})
					if err == nil {
						r.Close()
						t.Errorf("%s, TLS %t, before %t: it was opened", name, encrypted, before)
					}
				})
				if d := time.Since(begun); d > tooLong {
					t.Errorf("%s, TLS %t, before %t: it lasted %s", name, encrypted, before, d)
				}
			}
		}
	}
}

// A server that offers no TLS gets no login from who wants it.
func TestAMariaDBThatOffersNoTLSIsRefused(t *testing.T) {
	t.Parallel()
	f := &fake{answer: func(w *pieces, _ string) { w.table("\x01x", theEnd) }}
	_, client := serverTLS(t)
	c := mysql.NewConfig()
	c.Net, c.Addr, c.DBName, c.User, c.TLS = "tcp", f.start(t), "db", "rf", client
	conn, err := shield(t.Context(), c)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, mysql.ErrNoTLS) {
		t.Errorf("%v; expected that it has no TLS", err)
	}
}

// What is refused is named.
func TestARefusalOfAMariaDBIsNamed(t *testing.T) {
	t.Parallel()
	f := &fake{answer: func(w *pieces, _ string) { w.packet(lie(1e15)) }}
	c := mysql.NewConfig()
	c.Net, c.Addr, c.DBName, c.User = "tcp", f.start(t), "db", "rf"
	r, err := Open(t.Context(), Config{MySQL: c})
	if err == nil {
		r.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "columns") {
		t.Errorf("%v; expected that it says what was refused", err)
	}
}

// However what a server says is cut, the same is let through, and the same is refused.
func TestPacketsAreFollowedHoweverTheyAreCut(t *testing.T) {
	t.Parallel()
	var all bytes.Buffer
	w := &pieces{w: &all, seq: 1}
	w.table("\x01x", "\x01y", theEnd)
	for size := 1; size <= all.Len(); size++ {
		p := &packets{}
		p.asked([]byte("\x01\x00\x00\x00\x03"))
		p.shift = 1
		said := bytes.Clone(all.Bytes())
		for from := 0; from < len(said); from += size {
			if err := p.feed(said[from:min(from+size, len(said))]); err != nil {
				t.Fatalf("in pieces of %d, at %d: %v", size, from, err)
			}
		}
		if said[3] != 0 || said[8] != 1 || p.count != 6 {
			t.Fatalf("in pieces of %d there are %d packets, numbered %d, %d; expected 6, from 0 on", size, p.count, said[3], said[8])
		}
	}
	for _, c := range []struct {
		said string
		ok   bool
	}{
		{"\x03\x00\x00\x01\xfc\x00\x10", true},                  // 4096 columns
		{"\x03\x00\x00\x01\xfc\x01\x10", false},                 // one more
		{"\x00\x00\x80\x01", true}, {"\x01\x00\x80\x01", false}, // a packet of 8 MiB, and one more
		{"\xff\xff\xff\x01", false}, {"\x00\x00\x00\x01", false},
	} {
		p := &packets{}
		p.asked([]byte("\x01\x00\x00\x00\x03"))
		if err := p.feed([]byte(c.said)); (err == nil) != c.ok {
			t.Errorf("%q: %v", c.said, err)
		}
	}
	p := &packets{bytes: limits.SQLAnswerBytes}
	if err := p.feed([]byte("\x01\x00\x00\x01")); err == nil {
		t.Error("an answer has no bound")
	}
}

// A greeting that is too short, or of something else, is an error.
func TestAGreetingThatNobodyCouldReadIsRefused(t *testing.T) {
	t.Parallel()
	for _, greets := range []string{
		"\x01\x00\x00\x00\x0a", "\x02\x00\x00\x00\x0ax", "\x05\x00\x00\x00\x0a8.0\x00", "\x02\x00\x00\x00\xff\x01",
		"\x13\x00\x00\x00\x0a8\x00\x01\x00\x00\x00saltsalt\x00\x00\x82\x08", "\xff\xff\xff\x00",
	} {
		f := &fake{greets: []byte(greets)}
		c := mysql.NewConfig()
		c.Net, c.Addr, c.DBName, c.User = "tcp", f.start(t), "db", "rf"
		if r, err := Open(t.Context(), Config{MySQL: c}); err == nil {
			r.Close()
			t.Errorf("%q is taken for a greeting", greets)
		}
	}
}
