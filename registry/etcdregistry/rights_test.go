package etcdregistry

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/registrytest"
)

// A user with no rights but those of docs/guide/security.md, whose password is in a file.
func TestTheRightsThatTheGuideNamesAreEnough(t *testing.T) {
	t.Parallel()
	server := testserver.Private(t, "etcd")
	cfg := config(t, server.URL())
	admin, err := clientv3.New(clientv3.Config{Endpoints: cfg.Endpoints})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	check := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	_, err = admin.UserAdd(ctx, "rf", "first")
	check(nil, err)
	for _, line := range testserver.Rights(t, "etcd", "ringfence/", base(cfg.Prefix)+"/") {
		switch w := strings.Fields(line)[1:]; w[0] + " " + w[1] {
		case "role add":
			_, err = admin.RoleAdd(ctx, w[2])
		case "role grant-permission":
			if w[3] != "--prefix=true" || w[4] != "readwrite" {
				t.Fatalf("%q: expected a prefix", line)
			}
			_, err = admin.RoleGrantPermission(ctx, w[2], w[5], clientv3.GetPrefixRangeEnd(w[5]), clientv3.PermissionType(clientv3.PermReadWrite))
		case "user grant-role":
			_, err = admin.UserGrantRole(ctx, w[2], w[3])
		default:
			t.Fatalf("%q: no command that this test knows", line)
		}
		check(nil, err)
	}
	_, err = admin.UserAdd(ctx, "root", "r00t")
	check(nil, err)
	_, err = admin.RoleAdd(ctx, "root")
	check(nil, err)
	_, err = admin.UserGrantRole(ctx, "root", "root")
	check(nil, err)
	_, err = admin.AuthEnable(ctx)
	check(nil, err)

	file := filepath.Join(t.TempDir(), "password")
	check(nil, os.WriteFile(file, []byte("first\n"), 0o600))
	cfg.User, cfg.PasswordFile = "rf", file
	s := opened(t, cfg)
	check(nil, registrytest.EveryOperation(ctx, s))

	strange, wrong, nobody := cfg, cfg, cfg
	strange.Prefix = "other"
	wrong.Password, wrong.PasswordFile = "hunter3", ""
	nobody.User, nobody.PasswordFile = "", ""
	for what, bad := range map[string]Config{"another user's prefix": strange, "a wrong password": wrong, "no login": nobody} {
		if _, err := open(ctx, bad); !errors.Is(err, fault.Unavailable) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v; expected unavailable, without the password", what, err)
		}
	}
}
