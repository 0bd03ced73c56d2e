package push_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/push"
	"github.com/ringfence/ringfence/subscription/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// loopback allows this host, as nothing else is there in a test.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// receiver is an endpoint that answers as h does.
func receiver(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// open is an endpoint at a URL that may be on this host.
func open(t *testing.T, url string, with func(*push.Config)) *push.Endpoint {
	t.Helper()
	cfg := push.Config{URL: url, Subscription: "billing", AllowNet: loopback}
	if with != nil {
		with(&cfg)
	}
	e, err := push.New(cfg)
	must(t, err)
	t.Cleanup(e.Close)
	return e
}

func record() *ringfence.Message {
	return &ringfence.Message{
		Topic: "payments", Storage: 1, Partition: 2, Offset: 345, Epoch: 67, Attempt: 8, Key: []byte("acct-42"), Value: []byte("paid"),
		Headers: []ringfence.Header{
			{Name: "source", Value: []byte("web")}, {Name: "content-type", Value: []byte("text/plain; charset=utf-8")},
			{Name: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}, {Name: "tracestate", Value: []byte("a=b")},
		},
		Timestamp: time.UnixMilli(1700000000123),
	}
}

func TestARequestSaysWhatItsRecordIs(t *testing.T) {
	t.Parallel()
	type request struct {
		http.Header
		body string
	}
	seen := make(chan request, 1)
	at := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.URL.RequestURI() != "/in?x=1" {
			t.Error(r.Method, r.URL, err)
		}
		seen <- request{r.Header, string(text)}
		w.WriteHeader(http.StatusNoContent)
	})
	must(t, open(t, at+"/in?x=1", nil).Deliver(t.Context(), record()))
	got := <-seen
	for name, want := range map[string]string{
		"Ringfence-Subscription": "billing", "Ringfence-Topic": "payments", "Ringfence-Storage": "1", "Ringfence-Partition": "2",
		"Ringfence-Offset": "345", "Ringfence-Key": "acct-42", "Ringfence-Key-Encoding": "", "Ringfence-Attempt": "8", "Ringfence-Epoch": "67",
		"Ringfence-Header-Source": "web", "Content-Type": "text/plain; charset=utf-8",
		"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate": "a=b",
		"Webhook-Signature": "", "Authorization": "", "Cookie": "",
	} {
		if v := strings.Join(got.Header[name], "|"); v != want {
			t.Errorf("%s is %q; expected %q", name, v, want)
		}
	}
	if got.body != "paid" || !strings.HasPrefix(got.Get("Webhook-Id"), "msg_") {
		t.Errorf("body %q, id %q", got.body, got.Get("Webhook-Id"))
	}
}

func TestOverTLSHTTP2IsSpoken(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.Header.Get("Ringfence-Offset") != "345" {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
		}
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // that of the handshake that has to fail
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	must(t, open(t, s.URL, func(c *push.Config) { c.TLS = &tls.Config{RootCAs: roots} }).Deliver(t.Context(), record()))
	if err := open(t, s.URL, nil).Deliver(t.Context(), record()); err == nil {
		t.Error("a certificate that nobody knows was taken")
	}
}

func TestWhatAnAnswerMeans(t *testing.T) {
	t.Parallel()
	at := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscan(r.URL.Query().Get("code"), &code) // 0 is no code
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "no \x1b[31mway\n") // some answers have no body
	})
	for code, want := range map[int]string{
		200: "done", 201: "done", 202: "done", 204: "done", 299: "done",
		300: "again", 301: "again", 304: "again", 307: "again",
		400: "never", 401: "never", 403: "never", 404: "never", 409: "never", 413: "never", 422: "never", 451: "never",
		408: "in 7s", 425: "in 7s", 429: "in 7s", 500: "in 7s", 502: "in 7s", 503: "in 7s", 504: "in 7s", 599: "in 7s",
		410: "again",
	} {
		err := open(t, fmt.Sprintf("%s?code=%d", at, code), nil).Deliver(t.Context(), record())
		got, timed := "again", interface{ RetryAfter() time.Duration }(nil)
		switch {
		case err == nil:
			got = "done"
		case dispatch.IsPermanent(err):
			got = "never"
		case errors.As(err, &timed):
			got = "in " + timed.RetryAfter().String()
		}
		outage := code == 429 || code >= 502 && code <= 504
		if shard.IsOutage(err) != outage {
			t.Errorf("%d is an outage: %t; expected %t", code, !outage, outage)
		}
		if got != want || errors.Is(err, push.ErrGone) != (code == 410) {
			t.Errorf("%d is %s (%v); expected %s", code, got, err, want)
		}
		if code >= 400 && !strings.Contains(err.Error(), fmt.Sprint(code)+" ") || code >= 400 && !strings.Contains(err.Error(), `"no \x1b[31mway\n"`) {
			t.Errorf("%d: %q does not show the answer, quoted", code, err)
		}
	}
}

// Whoever answers can make nobody send to where he likes.
func TestARedirectionIsNotFollowed(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	other := receiver(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	for _, to := range []string{other, "http://169.254.169.254/latest/meta-data/"} {
		for _, code := range []int{301, 302, 303, 307, 308} {
			at := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", to)
				w.WriteHeader(code)
			})
			err := open(t, at, nil).Deliver(t.Context(), record())
			if err == nil || !strings.Contains(err.Error(), fmt.Sprint(code)+" ") || dispatch.IsPermanent(err) {
				t.Errorf("%d to %s: %v", code, to, err)
			}
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d redirections were followed", n)
	}
}

func TestAnEndpointThatIsNotThereIsNoRecordsFault(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	err := open(t, s.URL+"?key=secret", nil).Deliver(t.Context(), record())
	if err == nil || dispatch.IsPermanent(err) || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	if !shard.IsOutage(err) || !shard.IsUnreached(err) {
		t.Errorf("%v: outage %t, unreached %t; expected both", err, shard.IsOutage(err), shard.IsUnreached(err))
	}
	at := receiver(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if err := open(t, at, nil).Deliver(t.Context(), record()); !shard.IsOutage(err) || shard.IsUnreached(err) {
		t.Errorf("%v: outage %t, unreached %t; expected the first only: the record may be why", err, shard.IsOutage(err), shard.IsUnreached(err))
	}
}

func TestAHangingEndpointIsGivenUp(t *testing.T) {
	t.Parallel()
	at := receiver(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for _, with := range []func(*push.Config){
		func(c *push.Config) { c.Timeout = 50 * time.Millisecond },
		func(c *push.Config) { c.HeaderTimeout = 50 * time.Millisecond },
	} {
		m := record()
		m.Value = nil // or the server would not notice that we went away
		if err := open(t, at, with).Deliver(t.Context(), m); err == nil || dispatch.IsPermanent(err) || !strings.Contains(err.Error(), "time") {
			t.Error(err)
		}
	}
}

func TestTheEndOfTheCallerEndsAnAttempt(t *testing.T) {
	t.Parallel()
	lost := errors.New("the shard is lost")
	ctx, lose := context.WithCancelCause(t.Context())
	at := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		lose(lost)
		<-r.Context().Done()
	})
	m := record()
	m.Value = nil
	if err := open(t, at, nil).Deliver(ctx, m); !errors.Is(err, lost) {
		t.Error(err)
	}
}

// The receiver has said that it is done: what it says beside that is waited for a while only.
func TestABodyThatDoesNotEndChangesNothing(t *testing.T) {
	t.Parallel()
	hang := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // then the server notices that we went away
			w.WriteHeader(code)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}
	quick := func(c *push.Config) { c.BodyTimeout = 50 * time.Millisecond }
	must(t, open(t, receiver(t, hang(200)), quick).Deliver(t.Context(), record()))
	if err := open(t, receiver(t, hang(500)), quick).Deliver(t.Context(), record()); err == nil || !strings.Contains(err.Error(), "500") {
		t.Error(err)
	}
}

func TestAnAnswerWithoutEndIsCutOff(t *testing.T) {
	t.Parallel()
	at := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		block := []byte(strings.Repeat("\n", 64<<10))
		for err := error(nil); err == nil; {
			_, err = w.Write(block)
		}
		_ = r.Body.Close()
	})
	err := open(t, at, func(c *push.Config) { c.BodyTimeout = time.Hour }).Deliver(t.Context(), record())
	if !dispatch.IsPermanent(err) || len(err.Error()) > 1024 {
		t.Errorf("%.2000q", err)
	}
}

// What is no answer of HTTP at all may act on no terminal, and takes no memory.
func TestGarbageIsShownQuotedAndCut(t *testing.T) {
	t.Parallel()
	for _, garbage := range []string{"\x1b]0;mine\x07" + strings.Repeat("x", 1<<20), "HTTP/1.1 200 \x1b[31m\r\nX: " + strings.Repeat("y", 1<<20)} {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		must(t, err)
		served := make(chan struct{})
		go func() { // joined below
			defer close(served)
			if c, err := l.Accept(); err == nil {
				_, _ = io.WriteString(c, garbage)
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}
		}()
		e := open(t, "http://"+l.Addr().String(), nil)
		err = e.Deliver(t.Context(), record())
		if err == nil || dispatch.IsPermanent(err) || !shard.IsOutage(err) || len(err.Error()) > 1024 || strings.ContainsAny(err.Error(), "\x1b\x07\r\n") {
			t.Errorf("%.2000q", err)
		}
		must(t, l.Close())
		<-served
	}
}

func TestAURLThatCanBeNoEndpointIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"":                                           "http:// or https://",
		"example.com/in":                             "http:// or https://",
		"ftp://example.com":                          "http:// or https://",
		"http:///in":                                 "no host",
		"https://me:hush@example.com/":               "--token-file",
		"https://example.com/#part":                  "fragment",
		"https://example.com:0/":                     "port",
		"https://example.com:/":                      "port",
		"https://example.com:65536/":                 "port",
		"https://exämple.com/":                       "visible ASCII",
		"https://example.com/a b":                    "visible ASCII",
		"https://example.com/\r\nX: y":               "visible ASCII",
		"https://[::1/":                              "no URL",
		"http://127.0.0.2/?key=hush":                 "127.0.0.2 is loopback",
		"http://localhost:80/":                       "127.0.0.1 is loopback",
		"http://api.LOCALHOST./":                     "127.0.0.1 is loopback",
		"http://[::ffff:10.1.2.3]/":                  "10.1.2.3 is private",
		"http://[fe80::1%25eth0]/":                   "link-local",
		"http://169.254.169.254/latest":              "metadata",
		"https://e.com/" + strings.Repeat("a", 2048): "at most 2048",
	} {
		_, err := push.New(push.Config{URL: raw})
		if !errors.Is(err, ringfence.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%.80s: %v; expected %q", raw, err, want)
		}
	}
	for _, raw := range []string{"http://example.com", "https://EXAMPLE.com:8443/a/b?c=d", "http://[2606:4700::1111]:80/", "http://93.184.216.34/"} {
		open(t, raw, nil)
	}
}

func TestATokenGoesToItsOriginAlone(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	at := receiver(t, func(_ http.ResponseWriter, r *http.Request) { got.Store(r.Header.Get("Authorization")) })
	path := filepath.Join(t.TempDir(), "tokens")
	use := func(text string) (string, error) {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		e, err := push.New(push.Config{URL: at, TokenFile: path, AllowNet: loopback})
		if err != nil {
			return "", err
		}
		defer e.Close()
		must(t, e.Deliver(t.Context(), record()))
		return got.Load().(string), nil
	}
	other, err := url.Parse(at)
	must(t, err)
	other.Scheme = "https"
	for text, want := range map[string]string{
		at + " mine\n": "Bearer mine", "https://example.com yours\n\n" + at + "/ mine": "Bearer mine",
		"https://example.com yours": "", other.String() + " yours": "", "": "",
	} {
		if token, err := use(text); err != nil || token != want {
			t.Errorf("%q: %q, %v; expected %q", text, token, err, want)
		}
	}
	for _, text := range []string{"secret", "a secret", at + " two secrets", at + " sécret", at + "/in secret", at + "?a=secret mine", "https://me:secret@example.com mine", "ftp://example.com secret"} {
		if _, err := use(text); !errors.Is(err, ringfence.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
	must(t, os.WriteFile(path, []byte("http://example.com mine"), 0o600))
	if _, err := push.New(push.Config{URL: "http://example.com/in", TokenFile: path}); !errors.Is(err, ringfence.ErrInvalid) || !strings.Contains(err.Error(), "https") {
		t.Errorf("a token in the open: %v", err)
	}
}
