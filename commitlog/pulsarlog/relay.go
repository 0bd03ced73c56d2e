package pulsarlog

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

// relay stands between the client and the brokers, in this process, and is a proxy of Pulsar to both. The
// client dials by itself, and believes the sizes that it reads: eight bytes of whoever is at the other end are
// a panic in a goroutine of its own, which ends the process. So what it connects to is the relay, which looks
// at each message before the client does, and breaks the connection where one is not as Pulsar has them.
//
// It listens on loopback, and lets nobody in who does not say what only this process knows. To the brokers it
// speaks as the configuration wants: it knows which host it dials, so it is what logs in, and secures the
// connection.
type relay struct {
	config   Config
	listener net.Listener
	pass     string

	ctx    context.Context //nolint:containedctx // the life of its connections
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	through map[string]struct{} // brokers that the host of the URL, a proxy of Pulsar, connects to
	warned  time.Time
}

const (
	loginPatience = 30 * time.Second // from a connection to the end of its login, as the client has it
	relayBuffer   = 32 << 10
	warnEvery     = 10 * time.Second
	mostThrough   = 1 << 12
)

func newRelay(c Config) (*relay, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		var other error
		if l, other = listen.Listen(context.Background(), "tcp", "[::1]:0"); other != nil {
			return nil, fmt.Errorf("pulsar log: the client connects over loopback, where nobody can listen: %w: %w", fault.Unavailable, errors.Join(err, other))
		}
	}
	r := &relay{config: c, listener: l, pass: rand.Text(), conns: map[net.Conn]struct{}{}, through: map[string]struct{}{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.wg.Go(r.accept)
	return r, nil
}

func (r *relay) url() string { return "pulsar://" + r.listener.Addr().String() }

// close ends all connections.
func (r *relay) close() {
	r.cancel()
	_ = r.listener.Close()
	r.mu.Lock()
	for c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}

func (r *relay) accept() {
	for {
		c, err := r.listener.Accept()
		switch {
		case r.ctx.Err() != nil:
			if err == nil {
				_ = c.Close()
			}
			return
		case err != nil: // too many files, which passes
			select {
			case <-time.After(busyPause):
			case <-r.ctx.Done():
			}
		default:
			r.wg.Go(func() { r.serve(c) })
		}
	}
}

// own has close end a connection, until the function that it returns was called.
func (r *relay) own(c net.Conn) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[c] = struct{}{}
	if r.ctx.Err() != nil {
		_ = c.Close()
	}
	return func() {
		_ = c.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, c)
	}
}

// serve is a connection of the client.
func (r *relay) serve(c net.Conn) {
	defer r.own(c)()
	_ = c.SetDeadline(time.Now().Add(loginPatience))
	in, out := bufio.NewReaderSize(c, relayBuffer), bufio.NewWriterSize(c, relayBuffer)
	var buf []byte
	m, err := readMessage(in, &buf)
	if err != nil || m.kind != connectCommand || subtle.ConstantTimeCompare(field(m.body(), connectAuthData), []byte(r.pass)) != 1 {
		return // somebody else on this host
	}
	host := string(field(m.body(), connectProxyTo))
	if err := r.connect(c, in, out, host, m.body()); err != nil && r.ctx.Err() == nil {
		r.tell(err)
	}
}

// connect connects to a broker, logs in, and passes on what both sides say until one of them ends. It is an
// error when that could not be, or the broker was at fault.
func (r *relay) connect(c net.Conn, in *bufio.Reader, out *bufio.Writer, broker string, said []byte) error {
	host, proxied := r.physical(broker)
	if err := r.config.logins.connecting(cmp.Or(host, r.config.host())); err != nil {
		return err
	}
	s, at, err := r.dial(host)
	if err != nil {
		return err
	}
	defer r.own(s)()
	_ = s.SetDeadline(time.Now().Add(loginPatience))
	login, err := r.login(said, proxied)
	if err != nil {
		return err
	}
	up := bufio.NewWriterSize(s, relayBuffer)
	if err := errors.Join(writeHead(up, newCommand(connectCommand, login), 0), up.Flush()); err != nil {
		return fmt.Errorf("pulsar's broker at %s: %w", at, err)
	}
	var sides sync.WaitGroup
	defer sides.Wait()
	from := &side{r: r}
	sides.Go(func() {
		defer s.Close()
		_ = passOn(in, up, from.ask, nil)
	})
	defer c.Close()
	err = passOn(bufio.NewReaderSize(s, relayBuffer), out, func(m wireMessage) ([]byte, error) {
		if !from.in && m.kind == connectedCommand {
			_, _ = c.SetDeadline(time.Time{}), s.SetDeadline(time.Time{})
			r.config.logins.arrived()
		}
		return from.answer(m)
	}, func(size uint32) error { return from.within(s, size) })
	if errors.Is(err, os.ErrDeadlineExceeded) && from.in {
		err = fmt.Errorf("%w: a message that it begins and does not end", errFrame)
	}
	if errors.Is(err, errFrame) || !from.in {
		return fmt.Errorf("pulsar's broker at %s: %w", at, err)
	}
	return nil // the connection ended, as they do
}

// physical is the host that a broker is reached by; "": any of the URL. proxied: which is asked for the broker.
func (r *relay) physical(broker string) (host, proxied string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.through[broker]; ok {
		return "", broker
	}
	return broker, ""
}

// dial connects to a host; "": to one of the URL.
func (r *relay) dial(host string) (c net.Conn, at string, err error) {
	hosts := []string{host}
	if host == "" {
		hosts = strings.Split(r.config.host(), ",")
	}
	var errs []error
	for _, at := range hosts {
		at = r.config.withPort(at)
		c, err := r.dialOne(at)
		if err == nil {
			return c, at, nil
		}
		errs = append(errs, fmt.Errorf("pulsar's broker at %s: %w", at, err))
	}
	return nil, "", errors.Join(errs...)
}

func (r *relay) dialOne(at string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: connectTimeout}
	if !r.config.encrypted() {
		return dialer.DialContext(r.ctx, "tcp", at) //nolint:wrapcheck // the caller does
	}
	t, err := r.config.tls() // anew, as certificates may have been
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.ctx, 2*connectTimeout)
	defer cancel()
	return (&tls.Dialer{NetDialer: &dialer, Config: t}).DialContext(ctx, "tcp", at) //nolint:wrapcheck // the caller does
}

// login is what the broker is told in place of what the client said.
func (r *relay) login(said []byte, proxied string) ([]byte, error) {
	b := without(said, connectAuthMethod, connectAuthName, connectAuthData, connectProxyTo)
	if proxied != "" {
		b = appendBytes(b, connectProxyTo, []byte(proxied))
	}
	name, data, err := r.credentials()
	if err != nil || name == "" {
		return b, err
	}
	return appendBytes(appendBytes(b, connectAuthName, []byte(name)), connectAuthData, data), nil
}

func (r *relay) credentials() (name string, data []byte, err error) {
	switch {
	case r.config.hasToken():
		token, err := r.config.logins.token()
		return "token", []byte(token), err
	case r.config.TLSCert != "":
		return "tls", nil, nil
	}
	return "", nil, nil
}

// tell says what went wrong with a connection: to whoever waits for it, and now and then in the log.
func (r *relay) tell(err error) {
	r.config.logins.failed(err)
	r.mu.Lock()
	told := time.Since(r.warned) < warnEvery
	if !told {
		r.warned = time.Now()
	}
	r.mu.Unlock()
	if !told && errors.Is(err, errFrame) {
		r.config.Logger.Warn("a connection was given up", "error", err)
	}
}

// side is one connection, as far as its messages are changed.
type side struct {
	r    *relay
	in   bool   // the login was answered
	most uint32 // how large a message may be, as the broker said then
}

// messagePatience is for how long a message may be under way, and for each MiB of it another second. A size with
// a bit that is wrong would keep both sides waiting until one of them finds out that the other is silent.
const messagePatience = 10 * time.Second

// within gives a message that has begun to come its time; 0: it has come.
func (s *side) within(c net.Conn, size uint32) error {
	switch {
	case !s.in: // the login has its own time
		return nil
	case size == 0:
		return c.SetReadDeadline(time.Time{}) //nolint:wrapcheck // that of the connection
	case size > s.most:
		return fmt.Errorf("%w: a message of %d bytes; at most %d are taken, as it said at its login", errFrame, size, s.most)
	}
	return c.SetReadDeadline(time.Now().Add(messagePatience + time.Duration(size>>20)*time.Second)) //nolint:wrapcheck // that of the connection
}

// ask is what the client asks, as the broker gets it.
func (s *side) ask(m wireMessage) ([]byte, error) {
	if m.kind != authResponseCommand {
		return m.command, nil
	}
	name, data, err := s.r.credentials()
	if err != nil {
		return nil, err
	}
	auth := appendBytes(appendBytes(nil, authName, []byte(name)), authData, data)
	return newCommand(authResponseCommand, appendBytes(without(m.body(), authResponseData), authResponseData, auth)), nil
}

// answer is what the broker says, as the client gets it. Of two fields with one number the last one counts, and
// messages are merged: what is added replaces what was there.
func (s *side) answer(m wireMessage) ([]byte, error) {
	first := !s.in
	s.in = true
	switch {
	case first != (m.kind == connectedCommand) && !(first && m.kind == errorCommand):
		return nil, fmt.Errorf("%w: command %d, and the login was answered: %v", errFrame, m.kind, !first)
	case !comes[m.kind]:
		return nil, fmt.Errorf("%w: command %d, which the log asks for nothing of", errFrame, m.kind)
	case m.entry > 0 && m.kind != messageCommand:
		return nil, fmt.Errorf("%w: command %d with an entry", errFrame, m.kind)
	}
	var more []byte
	switch m.kind {
	case errorCommand:
		if first {
			s.r.tell(fmt.Errorf("the broker lets nobody in: %.200q", field(m.body(), errorText)))
		}
	case connectedCommand:
		size := cmp.Or(numberField(m.body(), connectedMessageSize), defaultMessageBytes)
		if size > limits.PulsarEntryBytes {
			size = limits.PulsarEntryBytes
			more = appendNumber(nil, connectedMessageSize, size)
		}
		s.most = uint32(size) + limits.PulsarCommandBytes //nolint:gosec // judged
	case lookupCommand:
		at := s.r.address(m.body(), lookupURL, lookupURLTLS)
		s.r.goesThrough(at, numberField(m.body(), lookupThrough) != 0)
		more = appendNumber(appendBytes(nil, lookupURL, at), lookupThrough, 1)
	case closeProducerCommand, closeConsumerCommand:
		at := s.r.address(m.body(), assignedURL, assignedURLTLS)
		more = appendBytes(nil, assignedURL, at)
	}
	if more == nil {
		return m.command, nil
	}
	return appendBytes(m.command[:len(m.command):len(m.command)], m.kind, more), nil
}

// address is that of the two addresses of a broker which the log uses.
func (r *relay) address(body []byte, plain, encrypted protowire.Number) []byte {
	if r.config.encrypted() {
		return field(body, encrypted)
	}
	return field(body, plain)
}

// goesThrough notes how a broker is reached.
func (r *relay) goesThrough(at []byte, through bool) {
	u, err := url.ParseRequestURI(string(at))
	if err != nil || u.Host == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !through {
		delete(r.through, u.Host)
		return
	}
	if len(r.through) >= mostThrough {
		clear(r.through)
	}
	r.through[u.Host] = struct{}{}
}
