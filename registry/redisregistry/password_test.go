package redisregistry

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

func TestThePasswordFileIsReadForEachConnection(t *testing.T) {
	t.Parallel()
	cfg := server(t)
	admin := mustOpen(t, cfg)
	limited := cfg
	limited.Username, limited.Password, limited.PasswordFile = "test-"+newID(), "", filepath.Join(t.TempDir(), "password")
	defer func() {
		_ = admin.client.Do(t.Context(), admin.client.B().Arbitrary("ACL", "DELUSER", limited.Username).Build()).Error()
	}()
	change := func(password string) {
		command(t, admin, "ACL", "SETUSER", limited.Username, "on", "resetpass", ">"+password, "~*", "&*", "+@all")
		if err := os.WriteFile(limited.PasswordFile, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change("first")
	s := mustOpen(t, limited)
	change("second")
	if err := admin.client.Do(t.Context(), admin.client.B().Arbitrary("CLIENT", "KILL", "USER", limited.Username).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a call with the new password", func() error {
		_, err := s.List(t.Context(), "")
		return err
	})
	if err := os.Chmod(limited.PasswordFile, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t.Context(), limited); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), limited.PasswordFile) {
		t.Errorf("a file that others can read: %v", err)
	}
}

func TestStrictTLSRefusesALoginInTheClear(t *testing.T) {
	t.Parallel()
	cfg := Config{Addresses: []string{"192.0.2.1:6379"}, Password: "hunter2", Options: driver.Options{StrictTLS: true}}
	if _, err := open(t.Context(), cfg); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "without TLS") {
		t.Errorf("%v", err)
	}
}
