package pulsarlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/internal/testlog"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// fields are those of a message of Pulsar's protocol: numbers in the first, all else in the second.
func fields(b []byte) (numbers map[uint64]uint64, texts map[uint64][]byte) {
	numbers, texts = map[uint64]uint64{}, map[uint64][]byte{}
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		v, m := binary.Uvarint(b[max(0, n):])
		if n <= 0 || m <= 0 {
			break
		}
		b = b[n+m:]
		if tag&7 == 0 {
			numbers[tag>>3] = v
			continue
		}
		if v > uint64(len(b)) {
			break
		}
		texts[tag>>3], b = b[:v], b[v:]
	}
	return numbers, texts
}

func number(field, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, field<<3), v)
}

func text(field uint64, v []byte) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, field<<3|2), uint64(len(v))), v...)
}

// pretender is a broker that lets everybody in, and knows of each topic that it is at another place.
type pretender struct {
	net.Listener

	elsewhere string // host:port
	mu        sync.Mutex
	tokens    []string
}

func newPretender(t *testing.T, elsewhere string) *pretender {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pretender{Listener: l, elsewhere: elsewhere}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(c) }) // until the client is closed
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return p
}

func (p *pretender) port() string {
	_, port, _ := net.SplitHostPort(p.Addr().String())
	return port
}

func (p *pretender) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.tokens...)
}

func (p *pretender) serve(c net.Conn) {
	defer c.Close()
	for {
		var head [8]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		command := make([]byte, binary.BigEndian.Uint32(head[4:]))
		if _, err := io.ReadFull(c, command); err != nil {
			return
		}
		kind, parts := fields(command)
		var reply []byte
		switch kind[1] {
		case 2: // connect
			_, said := fields(parts[2])
			p.mu.Lock()
			p.tokens = append(p.tokens, string(said[3]))
			p.mu.Unlock()
			reply = append(number(1, 3), text(3, append(text(1, []byte("x")), number(2, 20)...))...)
		case 21: // how many partitions
			asked, _ := fields(parts[21])
			reply = append(number(1, 22), text(22, bytes.Join([][]byte{number(1, 0), number(2, asked[2]), number(3, 0)}, nil))...)
		case 23: // where a topic is
			asked, _ := fields(parts[23])
			reply = append(number(1, 24), text(24, bytes.Join([][]byte{text(1, []byte("pulsar://"+p.elsewhere)), number(3, 1), number(4, asked[2])}, nil))...)
		default:
			return
		}
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(reply)+4))
		frame = binary.BigEndian.AppendUint32(frame, uint32(len(reply)))
		if _, err := c.Write(append(frame, reply...)); err != nil {
			return
		}
	}
}

// A broker on this host, such as the end of a tunnel, or whoever listens there, names the one that has a
// topic; the token would follow.
func TestATokenFollowsALookupOnlyWhereItMayGo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, host   string
		strict       bool
		sent, warned bool
	}{
		{"this host", "127.0.0.1", true, true, false},
		{"another host", "0.0.0.0", false, true, true}, // it leads here, and is none of the names that are known to
		{"another host, strict", "0.0.0.0", true, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			second := newPretender(t, "127.0.0.1:1")
			first := newPretender(t, net.JoinHostPort(c.host, second.port()))
			var logged testlog.Buffer
			config := Config{
				ServiceURL: "pulsar://" + first.Addr().String(), Token: "hunter2",
				Options: driver.Options{StrictTLS: c.strict, Logger: logged.From(slog.LevelWarn)},
			}.withDefaults()
			config.logins = newLogins(config)
			client, err := config.newClient()
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.CreateReader(pulsar.ReaderOptions{Topic: "persistent://public/default/t", StartMessageID: pulsar.EarliestMessageID(), BackoffPolicyFunc: newPauses})
			if err == nil {
				t.Error("a broker that answers nothing gave a reader")
			}
			why := config.logins.explain(err)
			client.Close()
			if got := first.heard(); len(got) == 0 || got[0] != "hunter2" {
				t.Errorf("the broker of the URL heard %q", got)
			}
			if got := second.heard(); (len(got) > 0) != c.sent || c.sent && got[0] != "hunter2" {
				t.Errorf("the broker that was named heard %q", got)
			}
			if c.sent == errors.Is(why, fault.Invalid) || !c.sent && !strings.Contains(why.Error(), "broker that another one named, at 0.0.0.0") {
				t.Errorf("what is said: %v", why)
			}
			if got := logged.Count("a login goes to another host without TLS"); got > 1 || (got == 1) != c.warned {
				t.Errorf("warned %d times: %s", got, logged.String())
			}
		})
	}
}
