package auth

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open is a daemon's view of the tokens of a log, with a registry that knows nothing yet.
func open(t *testing.T, log *commitlog.Log) *Tokens {
	t.Helper()
	reg := memregistry.New()
	tokens, err := Open(t.Context(), topic.NewCatalog(log, reg, ""), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { tokens.Run(ctx); close(ended) }() // joined at the end
	t.Cleanup(func() {
		stop()
		<-ended
		if err := reg.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := tokens.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return tokens
}

// The log has the tokens: a registry that lost all of it loses none, and revives none that was revoked.
func TestARegistryThatWentBackRevivesNoToken(t *testing.T) {
	t.Parallel()
	log := commitlog.New(memlog.NewStore(nil).Driver())
	defer log.Close()
	now := time.Now()
	before := open(t, log)
	spec := api.NewTokenSpec{Name: "x", Grants: []api.Grant{{Role: api.RoleViewer, Namespace: "default"}}}
	kept, err := before.Make(t.Context(), "test", spec, now)
	if err != nil {
		t.Fatal(err)
	}
	revoked, err := before.Make(t.Context(), "test", spec, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.Revoke(t.Context(), "test", revoked.ID, now); err != nil {
		t.Fatal(err)
	}
	after := open(t, log)
	if p, err := after.Principal(kept.Secret, now); err != nil || p.ID != kept.ID {
		t.Errorf("the token that was kept is %+v, %v", p, err)
	}
	if _, err := after.Principal(revoked.Secret, now); !errors.Is(err, fault.Denied) {
		t.Errorf("the token that was revoked: %v; expected ErrDenied", err)
	}
}

func TestATokenEndsWhenItExpires(t *testing.T) {
	t.Parallel()
	log := commitlog.New(memlog.NewStore(nil).Driver())
	defer log.Close()
	tokens, now := open(t, log), time.Now()
	made, err := tokens.Make(t.Context(), "test", api.NewTokenSpec{Name: "x", Grants: []api.Grant{{Role: api.RoleViewer, Namespace: "*"}}, Expires: api.TimeOf(now.Add(time.Hour))}, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Principal(made.Secret, now.Add(59*time.Minute)); err != nil {
		t.Error(err)
	}
	if _, err := tokens.Principal(made.Secret, now.Add(time.Hour)); !errors.Is(err, fault.Denied) {
		t.Errorf("an hour later: %v; expected ErrDenied", err)
	}
}

// A secret that is cut or mistyped is told from one that is not known.
func TestASecretWithATypingErrorIsTold(t *testing.T) {
	t.Parallel()
	id, secret := newSecret()
	if got, err := idOf(secret); err != nil || got != id {
		t.Errorf("%s, %v; expected %s", got, err, id)
	}
	for _, wrong := range []string{"", "rf", secret[:len(secret)-1], "x" + secret, secret[:5] + "!" + secret[6:]} {
		if _, err := idOf(wrong); !errors.Is(err, fault.Denied) {
			t.Errorf("%q: %v; expected ErrDenied", wrong, err)
		}
	}
}
