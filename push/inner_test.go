package push

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/testlog"
)

func TestAddressesForSpecialPurposesAreRefused(t *testing.T) {
	t.Parallel()
	for _, a := range []string{
		"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.1", "100.127.255.255", "100.100.100.200", "127.0.0.1", "127.255.255.254",
		"168.63.129.16", "169.254.0.1", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1",
		"192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.0.1", "192.175.48.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
		"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "100:0:0:1::1",
		"2001::1", "2001:1ff:ffff::1", "2001:db8::1", "2002:7f00:1::", "2620:4f:8000::1", "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254",
		"fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "1::1", "e000::1",
	} {
		if err := newGuard(nil).check(netip.MustParseAddr(a)); err == nil {
			t.Errorf("%s may be dialed", a)
		}
		if err := newGuard(nil).control(t.Context(), "tcp", netip.AddrPortFrom(netip.MustParseAddr(a), 80).String(), nil); err == nil {
			t.Errorf("%s may be dialed", a)
		}
	}
	for _, a := range []string{
		"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "168.63.129.17", "169.253.255.255", "172.15.255.255", "172.32.0.0",
		"192.0.1.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "::ffff:8.8.8.8", "2001:200::1", "2001:4860:4860::8888", "2606:4700::1111", "2a00::1",
	} {
		if err := newGuard(nil).check(netip.MustParseAddr(a)); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	g := newGuard([]netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")})
	for a, ok := range map[string]bool{"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.1": false, "fd12::1": true, "fc00::1": false, "64:ff9b::a01:203": false} {
		if err := g.check(netip.MustParseAddr(a)); (err == nil) != ok {
			t.Errorf("%s: %v; allowed: %t", a, err, ok)
		}
	}
}

// A public address of this host leads to what listens here, its admin interfaces too. Addresses come and
// go, so they are asked for when one is dialed.
func TestAPublicAddressOfThisHostIsRefused(t *testing.T) {
	t.Parallel()
	var own []net.Addr
	var fails error
	g := newGuard([]netip.Prefix{netip.MustParsePrefix("8.8.4.0/24")})
	at, err := g.own()
	if err != nil || !slices.ContainsFunc(at, func(a net.Addr) bool { return strings.HasPrefix(a.String(), "127.0.0.1/") }) {
		t.Errorf("the addresses of this host: %v, %v", at, err)
	}
	g.own = func() ([]net.Addr, error) {
		if fails != nil {
			return nil, fails
		}
		return own, nil
	}
	dial := func(a string) error {
		return g.control(t.Context(), "tcp", netip.AddrPortFrom(netip.MustParseAddr(a), 80).String(), nil)
	}
	for _, a := range []string{"8.8.8.8", "2a00::1"} {
		if err := dial(a); err != nil {
			t.Errorf("%s, which nobody has: %v", a, err)
		}
	}
	own = []net.Addr{
		&net.IPNet{IP: net.ParseIP("127.0.0.1"), Mask: net.CIDRMask(8, 32)}, &net.IPNet{IP: net.ParseIP("8.8.8.8"), Mask: net.CIDRMask(24, 32)},
		&net.IPNet{IP: net.ParseIP("8.8.4.4"), Mask: net.CIDRMask(24, 32)}, &net.IPNet{IP: net.ParseIP("2a00::1"), Mask: net.CIDRMask(64, 128)},
	}
	for _, a := range []string{"8.8.8.8", "::ffff:8.8.8.8", "2a00::1", "2a00::1%eth0"} {
		if err := dial(a); !errors.Is(err, ringfence.ErrInvalid) || !strings.Contains(err.Error(), "this host's own") {
			t.Errorf("%s, which this host has: %v", a, err)
		}
	}
	for _, a := range []string{"8.8.8.9", "8.8.4.4", "2a00::2"} { // a neighbour's, or allowed
		if err := dial(a); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	if u, err := url.Parse("https://8.8.8.8/in"); err != nil || g.obvious(u) == nil {
		t.Errorf("a URL with an address of this host: %v, and no refusal", err)
	}
	fails = errors.New("no netlink")
	if err := dial("8.8.8.9"); !errors.Is(err, fails) {
		t.Errorf("nobody can say what this host has: %v", err)
	}
	if err := dial("8.8.4.4"); err != nil {
		t.Errorf("nobody can say what this host has, and the address is allowed: %v", err)
	}
}

func TestNoProxyIsAskedAndNothingIsDecompressed(t *testing.T) {
	t.Parallel()
	tr, err := transport(&Config{}, newGuard(nil), "")
	if err != nil {
		t.Fatal(err)
	}
	if tr.Proxy != nil || !tr.DisableCompression || tr.MaxResponseHeaderBytes != limits.EndpointAnswerBytes {
		t.Errorf("a proxy: %t, decompression: %t, %d bytes of headers", tr.Proxy != nil, !tr.DisableCompression, tr.MaxResponseHeaderBytes)
	}
}

func TestOfAnAnswerIsReadWhatTheLimitSays(t *testing.T) {
	t.Parallel()
	e := &Endpoint{body: time.Hour}
	r := bytes.NewReader(make([]byte, 1<<20))
	if got := e.read(&http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(r)}, func() {}); len(got) != limits.EndpointAnswerBytes || r.Len() < 1<<20-2*limits.EndpointAnswerBytes {
		t.Errorf("%d bytes of an answer were kept, %d read", len(got), 1<<20-r.Len())
	}
}

// neverRead fails the test of whoever reads it.
type neverRead struct{ t *testing.T }

func (r neverRead) Read([]byte) (int, error) {
	r.t.Error("it was read")
	return 0, io.EOF
}

func TestNothingIsReadOfAConnectionThatAnAnswerHandsOut(t *testing.T) {
	t.Parallel()
	e := &Endpoint{body: time.Hour}
	if got := e.read(&http.Response{StatusCode: http.StatusSwitchingProtocols, Body: io.NopCloser(neverRead{t})}, func() {}); got != nil {
		t.Errorf("%q", got)
	}
}

func TestTheWaitOfAnAnswerIsUnderstoodAndBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 120 ": 2 * time.Minute, "3600": time.Hour, "3601": time.Hour + time.Second, "99999999999999999999999": longestWait, "31536001": longestWait,
		"-5": 0, "+5": 0, "1.5": 0, "1e3": 0, "soon": 0, "0x10": 0,
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second, "Sunday, 01-Mar-26 12:01:00 GMT": time.Minute, "Sun Mar  1 12:00:05 2026": 5 * time.Second,
		"Sun, 01 Mar 2026 11:59:00 GMT": 0, "Mon, 01 Mar 2027 12:00:00 GMT": longestWait, "Tue, 02 Mar 2027 12:00:00 GMT": longestWait,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %s; expected %s", value, got, want)
		}
	}
}

// The example of the specification, and of its libraries.
func TestASignatureIsThatOfStandardWebhooks(t *testing.T) {
	t.Parallel()
	keys, err := parseSecrets([]byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	got := signatures(keys, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Error(got)
	}
}

func TestSecretsAreReadAnewAndShownNowhere(t *testing.T) {
	t.Parallel()
	first, second := strings.Repeat("a", 24), strings.Repeat("b", 64)
	line := func(s string) string { return "whsec_" + base64.StdEncoding.EncodeToString([]byte(s)) + "\n" }
	path := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(line(first))
	var told testlog.Buffer
	k, err := keep(told.Logger(), func() ([][]byte, error) { return readSecrets(path, "") })
	if err != nil {
		t.Fatal(err)
	}
	at := k.read
	expect := func(what string, after time.Duration, want ...string) {
		t.Helper()
		at = at.Add(after)
		if got := k.current(at); !slices.EqualFunc(got, want, func(k []byte, w string) bool { return string(k) == w }) {
			t.Errorf("%s: %q; expected %q", what, got, want)
		}
	}
	write(line(second) + line(first))
	expect("at once", rereadAfter-1, first)
	expect("rotated", 1, second, first)
	if n := len(strings.Fields(signatures(k.value, "msg_1", at, nil))); n != 2 {
		t.Errorf("%d signatures while two secrets are known", n)
	}
	write("broken" + line(first))
	expect("broken", rereadAfter, second, first)
	if !strings.Contains(told.String(), "secret file") || strings.Contains(told.String(), "broken") {
		t.Errorf("told: %s", told.String())
	}
	write(line(second))
	expect("mended", rereadAfter, second)

	for _, text := range []string{"", "\n", "hush", line("hush"), line(strings.Repeat("c", 23)), line(strings.Repeat("c", 65)), line(first) + line(second) + line(first)} {
		write(text)
		if err := CheckSecrets(path); !errors.Is(err, ringfence.ErrInvalid) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", text, err)
		}
	}
	write(line(first))
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := CheckSecrets(path); !errors.Is(err, ringfence.ErrInvalid) || !strings.Contains(err.Error(), "chmod go=") {
		t.Errorf("a secret that everybody can read: %v", err)
	}
}

func TestADeliveryIsKnownByItsID(t *testing.T) {
	t.Parallel()
	m := ringfence.Message{Topic: "a", Offset: 1, Timestamp: time.UnixMilli(5), Attempt: 1, Epoch: 1}
	again := m
	again.Attempt, again.Epoch = 2, 9
	if a := id("s", &m); a != id("s", &again) || strings.Contains(a, ".") {
		t.Errorf("another attempt has another ID than %s", a)
	}
	seen := map[string]bool{id("s", &m): true, id("t", &m): true}
	for _, change := range []func(*ringfence.Message){
		func(m *ringfence.Message) { m.Topic = "b" }, func(m *ringfence.Message) { m.Storage++ }, func(m *ringfence.Message) { m.Partition++ },
		func(m *ringfence.Message) { m.Offset++ }, func(m *ringfence.Message) { m.Timestamp = m.Timestamp.Add(time.Millisecond) },
	} {
		other := m
		change(&other)
		seen[id("s", &other)] = true
	}
	if len(seen) != 7 {
		t.Errorf("%d IDs of seven records", len(seen))
	}
}

// sent is a request as its receiver reads it.
func sent(t *testing.T, m *ringfence.Message, cloudEvent bool) http.Header {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://example.com/in", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header("billing", m, cloudEvent)
	var wire bytes.Buffer
	if err := req.Write(&wire); err != nil {
		t.Fatalf("%+v can't be sent: %v", m, err)
	}
	got, err := http.ReadRequest(bufio.NewReader(&wire))
	if err != nil {
		t.Fatalf("%+v can't be read: %v", m, err)
	}
	if wire.Len() != 0 {
		t.Fatalf("%+v left %d bytes behind its request", m, wire.Len())
	}
	return got.Header
}

// ours are the names of headers that are in every request.
var ours = []string{
	"Ringfence-Subscription", "Ringfence-Topic", "Ringfence-Storage", "Ringfence-Partition", "Ringfence-Offset", "Ringfence-Attempt", "Ringfence-Epoch",
	"User-Agent", "Content-Type", "Webhook-Id", "Content-Length",
}

// odd are keys, and two headers each, that try to be more than that.
var odd = []struct {
	key    []byte
	n1, v1 string
	n2, v2 string
}{
	{[]byte("acct-42"), "source", "web", "content-type", "text/plain"},
	{[]byte("a\r\nX-Admin: 1"), "X\r\nHost: evil", "1\r\n\r\nGET / HTTP/1.1", "", "\xff"},
	{[]byte("a"), "source", "web\r\nX-Admin: 1", "a b", "c"},
	{[]byte(" "), "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate", "a=b\n"},
	{bytes.Repeat([]byte("k"), longestKey+1), "host", "evil", "content-length", "7"},
	{[]byte{}, "Transfer-Encoding", "chunked", "authorization", "Bearer x"},
	{[]byte("a\r\nX-Admin: 1"), "ce_type", "x\r\nX-Admin: 1", "ce_type", "ключ\x00"},
	{[]byte("ключ"), "content-type", "a/b; c=\"\x00\"", "трасса", "да"},
}

func TestARecordInjectsNoHeader(t *testing.T) {
	t.Parallel()
	for _, o := range odd {
		saysWhatItIs(t, o.key, o.n1, []byte(o.v1), o.n2, []byte(o.v2))
	}
}

func FuzzHeaders(f *testing.F) {
	for _, o := range odd {
		f.Add(o.key, o.n1, []byte(o.v1), o.n2, []byte(o.v2))
	}
	f.Fuzz(saysWhatItIs)
}

// saysWhatItIs: a record can say nothing but what it says. Every header is one of ours or has our prefix, or is
// an attribute of an event where that is asked for, and key and headers come out as they went in.
func saysWhatItIs(t *testing.T, key []byte, n1 string, v1 []byte, n2 string, v2 []byte) {
	m := &ringfence.Message{Topic: "t", Key: key, Headers: []ringfence.Header{{Name: n1, Value: v1}, {Name: n2, Value: v2}}}
	saysIt(t, m, sent(t, m, false))
	saysIt(t, m, sent(t, m, true), "Ce-Specversion", "Ce-Id", "Ce-Source", "Ce-Type", "Ce-Time", "Ce-Partitionkey")
}

func saysIt(t *testing.T, m *ringfence.Message, got http.Header, more ...string) {
	t.Helper()
	key := m.Key
	for _, name := range ours {
		if len(got[name]) != 1 {
			t.Errorf("%s: %q", name, got[name])
		}
	}
	for name := range got {
		known := slices.Contains(ours, name) || slices.Contains([]string{keyHeader, keyEncoding, encodedHeader, omittedHeader, "Traceparent", "Tracestate"}, name)
		if !known && !slices.Contains(more, name) && !strings.HasPrefix(name, ownPrefix) {
			t.Errorf("the record made a header %q: %q", name, got[name])
		}
	}
	if got.Get("Content-Length") != "0" {
		t.Errorf("a length of %s", got.Get("Content-Length"))
	}
	if back := keyOf(t, got); len(key) <= longestKey && !bytes.Equal(back, key) {
		t.Errorf("the key %q came as %q", key, back)
	}
	left, _ := strconv.Atoi(got.Get(omittedHeader)) // none: 0
	for _, r := range m.Headers {
		plainly := slices.Contains(got[http.CanonicalHeaderKey(ownPrefix+r.Name)], string(r.Value))
		coded := base64.StdEncoding.EncodeToString([]byte(r.Name)) + ":" + base64.StdEncoding.EncodeToString(r.Value)
		if plainly || slices.Contains(got[encodedHeader], coded) {
			continue
		}
		if left--; left < 0 || len(r.Name)+len(r.Value) < longestOwn/2 {
			t.Errorf("the header %q: %q did not come: %q", r.Name, r.Value, got)
		}
	}
}

func keyOf(t *testing.T, h http.Header) []byte {
	t.Helper()
	key := h.Get(keyHeader)
	if h.Get(keyEncoding) != "base64" {
		return []byte(key)
	}
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestMoreHeadersThanServersTakeAreLeftOut(t *testing.T) {
	t.Parallel()
	m := &ringfence.Message{Topic: "t", Key: bytes.Repeat([]byte("k"), 32<<10)}
	for range 1000 {
		m.Headers = append(m.Headers, ringfence.Header{Name: "a", Value: []byte("b")})
	}
	got := sent(t, m, false)
	if n := len(got[ownPrefix+"A"]); n != ownHeaders || got.Get(omittedHeader) != "900" {
		t.Errorf("%d headers, %s left out", n, got.Get(omittedHeader))
	}
	if len(got.Get(keyHeader)) != 64 || got.Get(keyEncoding) != "sha256" {
		t.Errorf("the key is %q by %s", got.Get(keyHeader), got.Get(keyEncoding))
	}
	m.Headers = nil
	for _, n := range []int{6 << 10, 1 << 20, 8 << 10, 6 << 10, 6 << 10, 10} { // the third one of 6 KiB is too much in all
		m.Headers = append(m.Headers, ringfence.Header{Name: "a", Value: bytes.Repeat([]byte("b"), n)})
	}
	if got := sent(t, m, false); got.Get(omittedHeader) != "3" || len(got[ownPrefix+"A"]) != 3 {
		t.Errorf("%d large headers, %s left out", len(got[ownPrefix+"A"]), got.Get(omittedHeader))
	}
	m.Headers = []ringfence.Header{{Name: "a", Value: make([]byte, 6<<10)}}
	if got := sent(t, m, false); got.Get(omittedHeader) != "1" {
		t.Errorf("what is beyond 7 KiB in base64 was sent: %d", len(got[encodedHeader][0]))
	}
}

func TestATraceThatIsNotWholeIsNotPassedOn(t *testing.T) {
	t.Parallel()
	const whole = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	one := func(h ...string) []ringfence.Header {
		var all []ringfence.Header
		for i := 0; i < len(h); i += 2 {
			all = append(all, ringfence.Header{Name: h[i], Value: []byte(h[i+1])})
		}
		return all
	}
	for _, c := range []struct {
		headers       []ringfence.Header
		parent, state string
	}{
		{one("Traceparent", whole), whole, ""},
		{one("tracestate", "a=1", "traceparent", whole, "tracestate", "b=2"), whole, "a=1,b=2"},
		{one("traceparent", whole, "traceparent", whole), "", ""},
		{one("traceparent", whole+"\r\nX: y"), "", ""},
		{one("traceparent", "00-zz"), "", ""},
		{one("tracestate", "a=1"), "", ""},
		{one("traceparent", whole, "tracestate", "a\n"), whole, ""},
		{one("traceparent", whole, "tracestate", strings.Repeat("a", 513)), whole, ""},
	} {
		h := sent(t, &ringfence.Message{Topic: "t", Headers: c.headers}, false)
		if h.Get("Traceparent") != c.parent || h.Get("Tracestate") != c.state {
			t.Errorf("%q: %q %q", c.headers, h.Get("Traceparent"), h.Get("Tracestate"))
		}
	}
}

// What a registry does not say is no word that subscriptions are gone.
func TestARegistryThatDoesNotAnswerEndsNothing(t *testing.T) {
	t.Parallel()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		t.Fatal(err)
	}
	if err := rf.Close(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	s := server{rf: rf, running: map[string]*delivery{"billing": {stop: func() { stopped = true }, over: make(chan struct{})}}}
	s.opts.Config.Logger = slog.New(slog.DiscardHandler)
	if s.follow(t.Context()); stopped || !s.blind {
		t.Errorf("a delivery was stopped: %t, the definitions could not be read: %t", stopped, s.blind)
	}
}
