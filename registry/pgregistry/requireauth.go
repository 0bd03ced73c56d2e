package pgregistry

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry/driver"
)

// Ways to log in that require_auth names, as libpq calls them.
var authMethods = []string{"none", "password", "md5", "gss", "sspi", "scram-sha-256", "oauth"}

// requireAuth heeds require_auth, which pgx does not know: from the URL or a service's file, where it
// stands among the server's settings then, or else from PGREQUIREAUTH. From then on a server that asks
// for the password in another way gets no answer; nor does, with or without it, one that wants too much of it.
func requireAuth(cc *pgx.ConnConfig) error {
	list, ok := cc.RuntimeParams["require_auth"]
	delete(cc.RuntimeParams, "require_auth")
	if !ok {
		list = os.Getenv("PGREQUIREAUTH")
	}
	var allowed []string
	if list != "" {
		var err error
		if allowed, err = parseRequireAuth(list); err != nil {
			return err
		}
	}
	build := cc.BuildFrontend
	cc.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		return build(&authGuard{from: r, allowed: allowed, list: list}, w)
	}
	return nil
}

// parseRequireAuth are the methods that a list allows: those that it names, or with a ! before each of
// them all others.
func parseRequireAuth(list string) ([]string, error) {
	var named []string
	negated := 0
	for text := range strings.SplitSeq(list, ",") {
		name, not := strings.CutPrefix(strings.TrimSpace(text), "!")
		if not {
			negated++
		}
		if !slices.Contains(authMethods, name) || slices.Contains(named, name) {
			return nil, fmt.Errorf("postgres registry: require_auth: %q; expected different ones of %s, or a ! before each: %w",
				name, strings.Join(authMethods, ", "), driver.ErrInvalid)
		}
		named = append(named, name)
	}
	switch negated {
	case 0:
		return named, nil
	case len(named):
		return slices.DeleteFunc(slices.Clone(authMethods), func(m string) bool { return slices.Contains(named, m) }), nil
	default:
		return nil, fmt.Errorf("postgres registry: require_auth: %q has a ! before some; expected it before each, or before none: %w", list, driver.ErrInvalid)
	}
}

// Kinds of messages of the server, until a login is over.
const (
	authOK        = 0
	authPassword  = 3
	authMD5       = 5
	authGSS       = 7
	authGSSMore   = 8
	authSSPI      = 9
	authSASL      = 10
	authSASLMore  = 11
	authSASLFinal = 12
)

// maxLogin is of how many bytes a message may be before the login is over. libpq allows 30,000 for an error,
// and 2,000 for any other.
const maxLogin = 30_000

// authGuard reads what a server says until it has let us in, and hands on a message only when it asks
// for nothing but what is allowed.
type authGuard struct {
	from    io.Reader
	allowed []string
	list    string // as it was given, for messages; "": all are
	asked   bool   // the server wanted some proof
	over    bool   // it has let us in
	checked []byte // to be handed on
}

func (g *authGuard) Read(p []byte) (int, error) {
	if len(g.checked) == 0 {
		if g.over {
			return g.from.Read(p)
		}
		if err := g.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, g.checked)
	g.checked = g.checked[n:]
	return n, nil
}

// next reads one message: a letter, the length of the rest, and the rest.
func (g *authGuard) next() error {
	var head [5]byte
	if _, err := io.ReadFull(g.from, head[:]); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint32(head[1:])) - 4
	if size < 0 || size > maxLogin {
		return fmt.Errorf("the server sent a message of %d bytes before the login was over; expected at most %d", size, maxLogin)
	}
	message := make([]byte, 5+size)
	copy(message, head[:])
	if _, err := io.ReadFull(g.from, message[5:]); err != nil {
		return err
	}
	if head[0] == 'R' {
		if size < 4 {
			return fmt.Errorf("the server sent a request for a login of %d bytes; expected at least 4", size)
		}
		kind := binary.BigEndian.Uint32(message[5:])
		if err := g.check(kind); err != nil {
			return err
		}
		if kind == authSASLMore {
			if err := storeurl.CheckScram(message[9:]); err != nil {
				return err
			}
		}
	}
	g.checked = message
	return nil
}

// check tells whether what the server asks for is allowed.
func (g *authGuard) check(kind uint32) error {
	if g.list == "" {
		g.over = kind == authOK
		return nil
	}
	var method string
	switch kind {
	case authOK:
		g.over = true
		if g.asked {
			return nil
		}
		method = "none"
	case authPassword:
		method = "password"
	case authMD5:
		method = "md5"
	case authGSS:
		method = "gss"
	case authSSPI:
		method = "sspi"
	case authSASL: // OAuth would need a provider of tokens, and none is set
		method = "scram-sha-256"
	case authGSSMore, authSASLMore, authSASLFinal:
		if g.asked { // what began it was allowed
			return nil
		}
		fallthrough
	default:
		return fmt.Errorf("require_auth=%s: the server asks for a login of kind %d, which is not known here", g.list, kind)
	}
	g.asked = true
	if !slices.Contains(g.allowed, method) {
		return fmt.Errorf("require_auth=%s: the server asks for a login by %q, which is not among them; nothing was sent. Allow it, or change pg_hba.conf (and password_encryption) on the server", g.list, method)
	}
	return nil
}
