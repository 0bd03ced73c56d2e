package pulsarlog

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/memtest"
)

func connected(more ...[]byte) []byte {
	return command(3, append(append(text(1, []byte("x")), number(2, 20)...), bytes.Join(more, nil)...), nil)
}

// sizes is the begin of a message, as it says how long it is.
func sizes(message, command uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, message), command)
}

// strange is what no broker of Pulsar sends, and what is said of it.
var strange = []struct {
	what, why string
	said      []byte
}{
	{"a message of 2 GiB", "a message of 2147483648 bytes; at most", append(sizes(1<<31, 0), make([]byte, 100)...)},
	{"a message of 2 GiB, less a byte", "a message of 2147483647 bytes; at most", append(sizes(1<<31-1, 8), make([]byte, 100)...)},
	{"a message of 4 GiB", "a message of 4294967295 bytes; at most", append(sizes(1<<32-1, 8), make([]byte, 100)...)},
	{"a message of a byte too many", "a message of 69206017 bytes; at most", append(sizes(limits.PulsarFrameBytes+1, 8), make([]byte, 100)...)},
	{"a message of nothing", "a message of 0 bytes with a command of 0", make([]byte, 100)},
	{"a message of three bytes", "a message of 3 bytes with a command of 0", append(sizes(3, 0), make([]byte, 100)...)},
	{"a command larger than its message", "a message of 16 bytes with a command of 13", append(sizes(16, 13), make([]byte, 100)...)},
	{"a command of 4 GiB", "a message of 16 bytes with a command of 4294967295", append(sizes(16, 1<<32-1), make([]byte, 100)...)},
	{"a command of more than is taken", "a command of 1048577 bytes; at most", append(sizes(2<<20, limits.PulsarCommandBytes+1), make([]byte, 100)...)},
	{"a command that is no protobuf", "a command that is no protobuf", append(sizes(12, 8), bytes.Repeat([]byte{0xff}, 100)...)},
	{"a command without a kind", "a command of kind 0", append(sizes(4, 0), make([]byte, 100)...)},
	{"a command of kind 77", "command 77, ", command(77, []byte("x"), nil)},
	{"a command that brokers don't send", "command 2, ", command(2, text(1, []byte("x")), nil)},
	{"a ping with an entry", "command 18", command(18, nil, make([]byte, 100))},
	{"that a topic is in another cluster now", "command 68, ", command(68, append(append(number(1, 1), number(2, 0)...), text(3, []byte("pulsar://127.0.0.1:1"))...), nil)},
	{"garbage, as of who speaks something else", "a message of 1213486160 bytes", []byte("HTTP/1.1 400 Bad Request\r\n\r\n" + strings.Repeat("x", 100))},
	{"a second login, for which nobody asked it", "command 3, and the login was answered: true", append(connected(), connected()...)},
}

// reading connects with a client, and looks for a topic.
func reading(t *testing.T, config Config) (*logins, error) {
	t.Helper()
	config = config.withDefaults()
	config.logins, config.operationTimeout = newLogins(config), 300*time.Millisecond
	client, err := config.newClient()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r, err := client.CreateReader(pulsar.ReaderOptions{Topic: "persistent://public/default/t", StartMessageID: pulsar.EarliestMessageID(), BackoffPolicyFunc: newPauses})
	if err == nil {
		r.Close()
	}
	return config.logins, err
}

// Nothing that comes from who listens in the place of a broker may end the process: the client reads what it
// gets in goroutines of its own.
func TestWhatIsNoMessageOfPulsarIsAnErrorAndNoMore(t *testing.T) {
	for _, c := range strange {
		for _, in := range []bool{false, true} {
			b := newTeller(t)
			b.lookup, b.greeting = c.said, c.said
			if in {
				b.greeting = nil
			}
			var err error
			var l *logins
			memtest.AtMost(t, 64<<20, c.what, func() { l, err = reading(t, Config{ServiceURL: "pulsar://" + b.Addr().String()}) })
			if err == nil {
				t.Errorf("%s, after the login %v: no error", c.what, in)
			} else if why := l.explain(err).Error(); !strings.Contains(why, "pulsar's broker at "+b.Addr().String()+": "+errFrame.Error()+": "+c.why) {
				t.Errorf("%s, after the login %v: %s; expected who it is, and %q", c.what, in, why, c.why)
			}
		}
	}
}

// The relay listens where every user of this host reaches it.
func TestNobodyElseGetsThroughTheRelay(t *testing.T) {
	t.Parallel()
	b := newPretender(t, "127.0.0.1:1")
	config := Config{ServiceURL: "pulsar://" + b.Addr().String(), Token: "hunter2"}.withDefaults()
	config.logins = newLogins(config)
	r, err := newRelay(config)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for what, hello := range map[string][]byte{
		"nobody":                  command(2, append(text(1, []byte("c")), number(4, 20)...), nil),
		"who guesses":             command(2, append(text(1, []byte("c")), text(3, []byte("hunter2"))...), nil),
		"who says the half of it": command(2, append(text(1, []byte("c")), text(3, []byte(r.pass[:13]))...), nil),
		"who does not log in":     command(18, nil, nil),
		"garbage":                 []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
	} {
		c, err := net.Dial("tcp", r.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(hello); err != nil {
			t.Fatal(err)
		}
		if said, err := io.ReadAll(c); len(said) > 0 { // and the end comes
			t.Errorf("%s: got %q, %v", what, said, err)
		}
		_ = c.Close()
	}
	if heard := b.heard(); len(heard) > 0 {
		t.Errorf("the broker heard %q", heard)
	}
}

// What the client says at the relay is for the relay alone, and what the broker hears is what the configuration
// has for it.
func TestTheBrokerHearsTheTokenAndNotThePass(t *testing.T) {
	t.Parallel()
	config := Config{ServiceURL: "pulsar://127.0.0.1:1", Token: "hunter2"}.withDefaults()
	config.logins = newLogins(config)
	r := &relay{config: config, pass: "secret", through: map[string]struct{}{}}
	login, err := r.login(bytes.Join([][]byte{text(1, []byte("c")), text(3, []byte("secret")), number(4, 20), text(5, []byte("token")), text(6, []byte("b:1"))}, nil), "")
	if err != nil || string(field(login, connectAuthData)) != "hunter2" || string(field(login, connectAuthName)) != "token" || bytes.Contains(login, []byte("secret")) || field(login, connectProxyTo) != nil {
		t.Errorf("the login is %q, %v", login, err)
	}
	challenged := newCommand(authResponseCommand, append(text(1, []byte("c")), text(2, append(text(1, []byte("token")), text(2, []byte("secret"))...))...))
	said, err := (&side{r: r}).ask(wireMessage{kind: authResponseCommand, command: challenged})
	if data := field(field(said, authResponseCommand), authResponseData); err != nil || string(field(data, authData)) != "hunter2" || bytes.Contains(said, []byte("secret")) {
		t.Errorf("the answer to a challenge is %q, %v", said, err)
	}
}

// Whatever address a broker names, the client comes back to the relay, which dials it.
func TestTheClientConnectsToTheRelayAlone(t *testing.T) {
	t.Parallel()
	for scheme, want := range map[string]string{"pulsar": "pulsar://plain:1", "pulsar+ssl": "pulsar+ssl://secured:2"} {
		config := Config{ServiceURL: scheme + "://127.0.0.1:1"}.withDefaults()
		r := &relay{config: config, through: map[string]struct{}{}}
		s := &side{r: r, in: true}
		for kind, body := range map[uint64][]byte{
			lookupCommand:        bytes.Join([][]byte{text(1, []byte("pulsar://plain:1")), text(2, []byte("pulsar+ssl://secured:2")), number(3, 1), number(4, 9), number(8, 0)}, nil),
			closeProducerCommand: bytes.Join([][]byte{number(1, 1), number(2, 2), text(3, []byte("pulsar://plain:1")), text(4, []byte("pulsar+ssl://secured:2"))}, nil),
			closeConsumerCommand: bytes.Join([][]byte{number(1, 1), number(2, 2), text(3, []byte("pulsar://plain:1")), text(4, []byte("pulsar+ssl://secured:2"))}, nil),
		} {
			raw := command(kind, body, nil)
			var buf []byte
			m, err := readMessage(bufio.NewReader(bytes.NewReader(raw)), &buf)
			if err != nil {
				t.Fatal(err)
			}
			said, err := s.answer(m)
			if err != nil {
				t.Fatal(err)
			}
			all := mergedFields(said, kind)
			at, through := lookupURL, true
			if kind != lookupCommand {
				at, through = assignedURL, false
			}
			if got := string(all.texts[uint64(at)]); got != want || through != (all.numbers[lookupThrough] == 1) { //nolint:gosec // small
				t.Errorf("%s, command %d: the address is %q, through the relay: %v", scheme, kind, got, all.numbers[lookupThrough])
			}
		}
	}
}

type merged struct {
	numbers map[uint64]uint64
	texts   map[uint64][]byte
}

// mergedFields are those of a message that is there several times, as protobuf merges them.
func mergedFields(command []byte, kind uint64) merged {
	var all []byte
	for len(command) > 0 {
		tag, n := binary.Uvarint(command)
		v, m := binary.Uvarint(command[n:])
		command = command[n+m:]
		if tag&7 == 2 {
			if tag>>3 == kind {
				all = append(all, command[:v]...)
			}
			command = command[v:]
		}
	}
	numbers, texts := fields(all)
	return merged{numbers, texts}
}

// A proxy of Pulsar connects to the broker that it is asked for, and nobody else reaches that one.
func TestAProxyOfPulsarIsAskedForTheBroker(t *testing.T) {
	t.Parallel()
	b := newTeller(t)
	b.lookup = nil
	b.through = "broker-7:6650"
	if _, err := reading(t, Config{ServiceURL: "pulsar://" + b.Addr().String()}); err != nil {
		t.Error(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.asked) < 2 || b.asked[0] != "" || b.asked[len(b.asked)-1] != b.through {
		t.Errorf("the proxy was asked for %q", b.asked)
	}
}

// With TLS the broker has to prove its name, by a certificate of the CA, on whatever way the client was sent there.
func TestABrokerOfTLSProvesItsName(t *testing.T) {
	t.Parallel()
	made := httptest.NewUnstartedServer(nil)
	made.StartTLS()
	made.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newTeller(t)
	b.secured = &tls.Config{Certificates: made.TLS.Certificates, MinVersion: tls.VersionTLS12}
	_, port, _ := net.SplitHostPort(b.Addr().String())
	config := Config{ServiceURL: "pulsar+ssl://127.0.0.1:" + port, TLSCA: ca, Token: "hunter2", Options: driver.Options{StrictTLS: true, AllowShared: true}}
	if _, err := reading(t, config); err != nil {
		t.Errorf("a broker that its certificate is for: %v", err)
	}
	named := config
	named.ServiceURL = "pulsar+ssl://localhost:" + port // the certificate is for example.com and 127.0.0.1
	if l, err := reading(t, named); err == nil || !strings.Contains(l.explain(err).Error(), "certificate") {
		t.Errorf("a broker with another name: %v", err)
	}
	other := config
	other.TLSCA = ""
	if l, err := reading(t, other); err == nil || !strings.Contains(l.explain(err).Error(), "certificate") {
		t.Errorf("a broker of another CA: %v", err)
	}
}

// A message of any size that is allowed comes out as it was, however it is cut on its way.
func TestMessagesArePassedOnAsTheyAre(t *testing.T) {
	t.Parallel()
	in := append(command(9, number(1, 1), bytes.Repeat([]byte("entry"), 50_000)), command(18, nil, nil)...)
	in = append(in, command(9, number(1, 2), []byte("x"))...)
	var out bytes.Buffer
	err := passOn(bufio.NewReaderSize(io.MultiReader(bytes.NewReader(in[:7]), bytes.NewReader(in[7:99_999]), bytes.NewReader(in[99_999:])), 4096), bufio.NewWriterSize(&out, 4096),
		func(m wireMessage) ([]byte, error) { return m.command, nil }, nil)
	if !errors.Is(err, io.EOF) || !bytes.Equal(in, out.Bytes()) {
		t.Errorf("%d bytes became %d: %v", len(in), out.Len(), err)
	}
}

// A size that is wrong on its way keeps nobody waiting.
func TestAMessageComesInItsTime(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	defer there.Close()
	s := &side{r: &relay{config: Config{}.withDefaults(), through: map[string]struct{}{}}, in: true, most: 5 << 20}
	if err := s.within(here, 5<<20+1); !errors.Is(err, errFrame) {
		t.Errorf("a message larger than what was said at the login: %v", err)
	}
	if err := s.within(here, 5<<20); err != nil {
		t.Fatal(err)
	}
	if err := s.within(here, 0); err != nil { // or the next one would have to come by then
		t.Fatal(err)
	}
	var asked []uint32
	whole := command(9, number(1, 1), make([]byte, 100))
	in := append(append(append([]byte{}, whole...), whole...), whole[:50]...)
	err := passOn(bufio.NewReaderSize(io.MultiReader(bytes.NewReader(in[:20]), bytes.NewReader(in[20:])), 4096), bufio.NewWriter(io.Discard), s.answer, func(size uint32) error {
		asked = append(asked, size)
		return nil
	})
	if n := uint32(len(whole) - 4); err == nil || !slices.Equal(asked, []uint32{n, 0, n}) { //nolint:gosec // small
		t.Errorf("of a message in two pieces, one whole, and half a one: %d, %v", asked, err)
	}
}

func FuzzMessagesOfABroker(f *testing.F) {
	for _, s := range strange {
		f.Add(s.said, false)
		f.Add(append(connected(), s.said...), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, encrypted bool) {
		config := Config{ServiceURL: "pulsar://127.0.0.1:1"}
		if encrypted {
			config.ServiceURL = "pulsar+ssl://127.0.0.1:1"
		}
		s := &side{r: &relay{config: config.withDefaults(), through: map[string]struct{}{}}}
		s.r.config.logins = newLogins(s.r.config)
		memtest.AtMost(t, 4<<20+2*len(b), b, func() {
			if err := passOn(bufio.NewReader(bytes.NewReader(b)), bufio.NewWriter(io.Discard), s.answer, func(uint32) error { return nil }); err == nil {
				t.Error("it has no end")
			}
		})
	})
}
