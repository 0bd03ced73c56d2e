package pgregistry

import (
	"bytes"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// demands is a server that asks for a login in its way, and tells what it got as an answer, nil if none.
func demands(t *testing.T, request pgproto3.BackendMessage) (address string, told <-chan pgproto3.FrontendMessage) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answers, done := make(chan pgproto3.FrontendMessage, 100), make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := pgproto3.NewBackend(c, c)
			if _, err = b.ReceiveStartupMessage(); err == nil {
				b.Send(request)
				err = b.Flush()
			}
			var answer pgproto3.FrontendMessage
			if err == nil {
				if _, ok := request.(*pgproto3.AuthenticationOk); ok {
					b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
					_ = b.Flush()
				} else {
					_ = b.SetAuthType(authTypeOf(request))
				}
				answer, _ = b.Receive()
			}
			answers <- answer
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String(), answers
}

func authTypeOf(m pgproto3.BackendMessage) uint32 {
	switch m.(type) {
	case *pgproto3.AuthenticationMD5Password:
		return pgproto3.AuthTypeMD5Password
	case *pgproto3.AuthenticationSASL:
		return pgproto3.AuthTypeSASL
	default:
		return pgproto3.AuthTypeCleartextPassword
	}
}

func TestALoginThatIsNotAllowedGetsNoAnswer(t *testing.T) {
	t.Parallel()
	for method, request := range map[string]pgproto3.BackendMessage{
		"none":          &pgproto3.AuthenticationOk{},
		"password":      &pgproto3.AuthenticationCleartextPassword{},
		"md5":           &pgproto3.AuthenticationMD5Password{Salt: [4]byte{1, 2, 3, 4}},
		"scram-sha-256": &pgproto3.AuthenticationSASL{AuthMechanisms: []string{"SCRAM-SHA-256"}},
	} {
		for list, allowed := range map[string]bool{
			"": true, method: true, "gss," + method: true, "!gss, !sspi": true,
			"gss": false, "!" + method: false, "!gss,!" + method: false,
		} {
			address, told := demands(t, request) // the client may try it twice
			cfg := Config{URL: "postgres://rf:hunter2@" + address + "/rf?sslmode=disable"}
			if list != "" {
				cfg.URL += "&require_auth=" + url.QueryEscape(list)
			}
			cc, err := connConfig(&cfg)
			if err != nil {
				t.Fatal(err)
			}
			cc.ValidateConnect = nil
			c, err := pgx.ConnectConfig(t.Context(), cc)
			if err == nil {
				_ = c.Close(t.Context())
			}
			answer := <-told
			if got := answer != nil; got != allowed {
				t.Errorf("%s, require_auth=%s: the server was answered: %v", method, list, got)
			}
			if !allowed && (err == nil || !strings.Contains(err.Error(), "require_auth="+list) || !strings.Contains(err.Error(), `"`+method+`"`)) {
				t.Errorf("%s, require_auth=%s: %v", method, list, err)
			}
		}
	}
}

func TestWhatRequireAuthMayBe(t *testing.T) {
	t.Parallel()
	for _, list := range []string{"scram", "md5,", "md5,md5", "!md5,scram-sha-256", "!!md5", ","} {
		cfg := Config{URL: "postgres://rf@127.0.0.1/rf?require_auth=" + url.QueryEscape(list)}
		if _, err := connConfig(&cfg); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "require_auth") {
			t.Errorf("%q: %v", list, err)
		}
	}
}

func TestRequireAuthComesFromTheEnvironmentToo(t *testing.T) {
	t.Setenv("PGREQUIREAUTH", "scram-sha-256")
	for query, want := range map[string]string{"": "scram-sha-256", "&require_auth=md5": "md5"} {
		address, told := demands(t, &pgproto3.AuthenticationCleartextPassword{})
		cfg := Config{URL: "postgres://rf:hunter2@" + address + "/rf?sslmode=disable" + query}
		cc, err := connConfig(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pgx.ConnectConfig(t.Context(), cc); err == nil || !strings.Contains(err.Error(), "require_auth="+want+":") {
			t.Errorf("%q: %v", query, err)
		}
		if answer := <-told; answer != nil {
			t.Errorf("%q: the server got an answer: %T", query, answer)
		}
	}
}

// A server lies about a length, or begins in the midst of a login.
func TestALoginIsReadWithinBounds(t *testing.T) {
	t.Parallel()
	for _, sent := range []string{"R\xff\xff\xff\xff", "N\x00\x10\x00\x00", "R\x00\x00\x00\x03", "R\x00\x00\x00\x06\x00\x00", "R\x00\x00\x00\x08\x00\x00\x00\x0c", "R\x00\x00\x00\x08\x00\x00\x00\x63"} {
		g := &authGuard{from: bytes.NewReader([]byte(sent + strings.Repeat("\x00", 100))), allowed: authMethods, list: "any"}
		if n, err := g.Read(make([]byte, 100)); n != 0 || err == nil {
			t.Errorf("%q: %d bytes, %v", sent, n, err)
		}
	}
}

// Against a real server, on all the connections of a store.
// A login of so many iterations lasts for minutes, and no time-out ends it.
func TestALoginThatWouldHashForMinutesIsGivenUp(t *testing.T) {
	t.Parallel()
	first := "r=nonce,s=c2FsdA==,i=2000000000"
	sent := "R\x00\x00\x00" + string(rune(8+len(first))) + "\x00\x00\x00\x0b" + first
	for _, list := range []string{"", "scram-sha-256"} {
		g := &authGuard{from: strings.NewReader(sent), allowed: authMethods, list: list, asked: true}
		if n, err := g.Read(make([]byte, 100)); n != 0 || err == nil || !strings.Contains(err.Error(), "2000000000") {
			t.Errorf("require_auth=%s: %d bytes, %v", list, n, err)
		}
	}
}

// A server that is none, or one behind a proxy, may answer with nothing at all.
func TestAServerThatDoesNotSayWhetherItTakesWritesIsRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := pgproto3.NewBackend(c, c)
			if _, err = b.ReceiveStartupMessage(); err == nil {
				b.Send(&pgproto3.AuthenticationOk{})
				b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				if err = b.Flush(); err == nil {
					_, err = b.Receive()
				}
			}
			if err == nil {
				b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SHOW")})
				b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				_ = b.Flush()
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	cc, err := connConfig(&Config{URL: "postgres://rf@" + l.Addr().String() + "/rf?sslmode=disable"})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := pgx.ConnectConfig(t.Context(), cc); err == nil || !strings.Contains(err.Error(), "does not say whether it takes writes") {
		t.Errorf("%v, %v", c, err)
	}
}

func TestRequireAuthWithAServer(t *testing.T) {
	t.Parallel()
	server := testserver.Private(t, "postgres")
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	admin := server.URL()
	stranger := *u // anybody on this machine, who as a superuser could run commands as the server's user
	stranger.User = url.User(u.User.Username())
	if c, err := pgx.Connect(t.Context(), stranger.String()); err == nil {
		_ = c.Close(t.Context())
		t.Error("a server for tests lets its superuser in without a password")
	}
	execute(t, admin, "SET password_encryption = 'scram-sha-256'; CREATE ROLE byscram LOGIN SUPERUSER PASSWORD 'hunter2'; CREATE ROLE inclear LOGIN SUPERUSER PASSWORD 'hunter2'")
	execute(t, admin, `COPY (SELECT unnest(ARRAY['host all byscram all scram-sha-256', 'host all inclear all password'])
		UNION ALL SELECT * FROM unnest(string_to_array(pg_read_file(current_setting('hba_file')), E'\n')) WHERE true) TO PROGRAM 'cat > pg_hba.new && mv pg_hba.new pg_hba.conf'`)
	execute(t, admin, "SELECT pg_reload_conf()")
	at := func(user string) schemaStore {
		u.User = url.UserPassword(user, "hunter2")
		u.RawQuery = "sslmode=disable&require_auth=scram-sha-256"
		return schemaStore{u.String(), "auth"}
	}
	await(t, "the server asks in the clear", func() bool {
		wrong := *u
		wrong.User, wrong.RawQuery = url.UserPassword("inclear", "wrong"), "sslmode=disable"
		c, err := pgx.Connect(t.Context(), wrong.String())
		if err == nil {
			_ = c.Close(t.Context())
		}
		return err != nil
	})
	s := at("byscram").open(t, driver.Options{})
	bind(t, s, session(t, s, soon), "member")
	if _, err := open(t.Context(), Config{URL: at("inclear").url, Schema: "auth"}); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), `"password"`) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("asked in the clear: %v", err)
	}
}
