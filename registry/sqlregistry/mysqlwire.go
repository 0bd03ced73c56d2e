package sqlregistry

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/go-sql-driver/mysql"
)

// wire is a connection to a server that may be anybody. It breaks before the client library hears what
// the library can't bear. So it is also the one that begins TLS: what the library decrypts itself nobody
// could look at. It does so with the library's first packet, which is sent as the protocol wants it: its
// beginning in the clear, all of it through TLS.
type wire struct {
	net.Conn // may be closed at any time; what follows belongs to who reads and writes

	stream   net.Conn    // Conn, or TLS over it
	tls      *tls.Config // to begin; nil: not, or it has begun
	greeting []byte      // what the library has not read of it
	packets  packets
	failed   atomic.Pointer[error] // what was refused
}

// greetingBytes is far more than a greeting has.
const greetingBytes = 4 << 10

// meet connects as c says, and hears the greeting. The result is a configuration for one connection,
// which is that one.
func meet(ctx context.Context, c *mysql.Config) (*mysql.Config, *wire, error) {
	dialing, cancel := context.WithCancel(ctx)
	if c.Timeout > 0 {
		dialing, cancel = context.WithTimeout(ctx, c.Timeout)
	}
	defer cancel()
	dial := c.DialFunc
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(dialing, c.Net, c.Addr)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	w := &wire{Conn: conn, stream: conn, packets: packets{login: true}}
	offers, err := w.greet()
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, nil, fmt.Errorf("%s: %w", c.Addr, err)
	}
	once := c.Clone()
	once.DialFunc = func(context.Context, string, string) (net.Conn, error) { return w.shown(), nil }
	if once.TLS, once.TLSConfig = nil, ""; c.TLS == nil {
		return once, w, nil
	}
	switch {
	case offers:
		w.tls = c.TLS.Clone()
		if w.tls.ServerName == "" && !w.tls.InsecureSkipVerify {
			w.tls.ServerName, _, _ = net.SplitHostPort(c.Addr)
		}
		once.Net = "unix" // how the library is told that nobody listens in, and that it may send a password
	case !c.AllowFallbackToPlaintext:
		conn.Close()
		return nil, nil, fmt.Errorf("%s: %w", c.Addr, mysql.ErrNoTLS)
	}
	return once, w, nil
}

// greet reads the greeting.
func (w *wire) greet() (offers bool, err error) {
	var header [4]byte
	if _, err := io.ReadFull(w.Conn, header[:]); err != nil {
		return false, err
	}
	length := int(header[0]) | int(header[1])<<8 | int(header[2])<<16
	if length == 0 || length > greetingBytes {
		return false, fmt.Errorf("a greeting of %d bytes: %w", length, errNoGreeting)
	}
	w.greeting = append(header[:], make([]byte, length)...)
	if _, err := io.ReadFull(w.Conn, w.greeting[4:]); err != nil {
		return false, err
	}
	return greetingOf(w.greeting[4:])
}

// Read implements net.Conn.
func (w *wire) Read(b []byte) (int, error) {
	if len(w.greeting) > 0 {
		n := copy(b, w.greeting)
		w.greeting = w.greeting[n:]
		return n, nil
	}
	n, err := w.stream.Read(b)
	if n > 0 {
		if err := w.packets.feed(b[:n]); err != nil {
			w.failed.CompareAndSwap(nil, &err)
			w.Conn.Close()
			return 0, err
		}
	}
	return n, err
}

// Write implements net.Conn. The library writes a packet at a time.
func (w *wire) Write(b []byte) (int, error) {
	w.packets.asked(b)
	if w.tls != nil {
		if len(b) < 4+loginBytes {
			return 0, errEarly
		}
		b = slices.Clone(b)
		able := binary.LittleEndian.Uint32(b[4:])
		binary.LittleEndian.PutUint32(b[4:], able|ableTLS)
		if err := w.encrypt(b); err != nil {
			w.failed.CompareAndSwap(nil, &err)
			return 0, err
		}
	}
	if w.packets.shift > 0 {
		b = slices.Clone(b)
		b[3] += w.packets.shift
	}
	return w.stream.Write(b)
}

var errEarly = errors.New("a login that is too short for TLS")

// loginBytes is what a login begins with: what this side is able to, its largest packet, its character set.
const loginBytes = 32

// encrypt begins TLS, with a login that is about to be sent.
func (w *wire) encrypt(login []byte) error {
	ask := append([]byte{loginBytes, 0, 0, login[3]}, login[4:4+loginBytes]...)
	if _, err := w.Conn.Write(ask); err != nil {
		return err
	}
	stream := tls.Client(w.Conn, w.tls)
	if err := stream.Handshake(); err != nil { // who gives up closes the connection
		return err
	}
	w.stream, w.tls, w.packets.shift = stream, nil, 1
	return nil
}

// refusal is what was refused, in place of what the library says of it.
func (w *wire) refusal(err error) error {
	if r := w.failed.Load(); r != nil && err != nil {
		return *r
	}
	return err
}

// shown is what the library sees of w: a file of the system's, if it is one, by which it finds out that a
// server has left.
func (w *wire) shown() net.Conn {
	if file, ok := w.Conn.(syscall.Conn); ok {
		return &socket{w, file}
	}
	return w
}

// socket is a wire that is a file of the system's.
type socket struct {
	*wire
	file syscall.Conn
}

// SyscallConn implements syscall.Conn.
func (s *socket) SyscallConn() (syscall.RawConn, error) { return s.file.SyscallConn() }
