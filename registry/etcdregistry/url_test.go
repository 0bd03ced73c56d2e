package etcdregistry

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

func parsed(t *testing.T, raw string) (Config, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return parse(u, false)
}

func TestAURLNamesNodesPrefixAndUser(t *testing.T) {
	t.Parallel()
	cfg, err := parsed(t, "etcd://me:hunter2@h1,h2:2380/apps/rf")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"h1:2379", "h2:2380"}; !slices.Equal(cfg.Endpoints, want) {
		t.Errorf("endpoints %q; expected %q", cfg.Endpoints, want)
	}
	if base(cfg.Prefix) != "apps/rf" || cfg.User != "me" || cfg.Password != "hunter2" || cfg.TLS != nil {
		t.Errorf("%+v", cfg)
	}
	if cfg, err = parsed(t, "etcds://h?server_name=etcd.internal"); err != nil || cfg.TLS == nil || cfg.TLS.ServerName != "etcd.internal" || base(cfg.Prefix) != "ringfence" {
		t.Errorf("%+v, %v", cfg, err)
	}
}

func TestABadURLIsRefusedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	noise := filepath.Join(t.TempDir(), "noise.pem")
	if err := os.WriteFile(noise, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for raw, names := range map[string]string{
		"etcd://":                                      "host",
		"etcd://h1,,h2":                                "commas",
		"etcd://me@h":                                  "password",
		"etcd://me:hunter2@h?colour=red":               "colour",
		"etcd://me:hunter2@h?ca=x":                     "ca",
		"etcds://me:hunter2@h?ca=/none/at/all":         "/none/at/all",
		"etcds://me:hunter2@h?ca=" + noise:             "PEM",
		"etcds://me:hunter2@h?cert=/none&key=/nothing": "/none",
	} {
		_, err := parsed(t, raw)
		if !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v; expected an invalid argument", raw, err)
			continue
		}
		if !strings.Contains(err.Error(), names) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the message %q should name %q, and no password", raw, err, names)
		}
	}
}

func TestNamespacesLieApart(t *testing.T) {
	t.Parallel()
	names := []string{"", "_", "%5F", "a", "a/b", "a%2Fb", "A", "ä", "a b", ".."}
	seen := map[string]string{}
	for _, n := range names {
		r, err := root("p", n)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(r, "/") != 3 || !strings.HasPrefix(r, "p/v1/") {
			t.Errorf("namespace %q has the root %q", n, r)
		}
		if other, ok := seen[r]; ok {
			t.Errorf("namespaces %q and %q have the same root %q", n, other, r)
		}
		seen[r] = n
	}
	for _, bad := range []string{"a\x00b", strings.Repeat("x", 129)} {
		if _, err := open(t.Context(), Config{Endpoints: []string{"h"}, Options: driver.Options{Namespace: bad}}); !errors.Is(err, fault.Invalid) {
			t.Errorf("namespace %.5q…: %v", bad, err)
		}
	}
}
