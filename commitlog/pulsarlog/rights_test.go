package pulsarlog

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/logtest"
	"github.com/ringfence/ringfence/internal/testserver"
)

// right is what a command of the guide gives: the role of an administrator of the tenant, or an action in
// the namespace.
type right string

// rightsOfPulsar are those of the lines of the guide.
func rightsOfPulsar(t *testing.T) (rights []right) {
	t.Helper()
	tenants := regexp.MustCompile(`^pulsar-admin tenants update (\S+) --admin-roles rf$`)
	actions := regexp.MustCompile(`^pulsar-admin namespaces grant-permission \S+ --role rf --actions (\S+)$`)
	for _, line := range testserver.Rights(t, "Pulsar") {
		switch {
		case tenants.MatchString(line):
			rights = append(rights, "admin")
		case actions.MatchString(line):
			for action := range strings.SplitSeq(actions.FindStringSubmatch(line)[1], ",") {
				rights = append(rights, right(action))
			}
		default:
			t.Fatalf("%q: expected the administrators of a tenant, or actions in a namespace", line)
		}
	}
	return rights
}

// With exactly what the guide names everything can be done, and with one right less it can't: the error
// says that the broker denies it.
func TestTheRightsThatTheGuideNamesAreEnoughAndNoneTooMany(t *testing.T) {
	t.Parallel()
	rights := rightsOfPulsar(t)
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		if err := withRights(t, rights); err != nil {
			t.Error(err)
		}
	})
	for i, lacks := range rights {
		t.Run("without "+string(lacks), func(t *testing.T) {
			t.Parallel()
			err := withRights(t, slices.Delete(slices.Clone(rights), i, i+1))
			t.Log(err)
			if err == nil || !strings.Contains(err.Error(), "403") && !strings.Contains(err.Error(), "401") && !strings.Contains(err.Error(), "Authorization") {
				t.Errorf("%v; expected that the broker denies something", err)
			}
		})
	}
}

// withRights does everything that a log is asked for, by a token of a role with these rights in a tenant of
// its own.
func withRights(t *testing.T, rights []right) error {
	t.Helper()
	u, err := url.Parse(testserver.URL(t, "pulsar"))
	if err != nil {
		t.Fatal(err)
	}
	role := "rf" + strings.ToLower(rand.Text())
	allow(t, u, role, rights)
	u.Path = "/" + role + "/orders"
	q := u.Query()
	q.Set("password-file", tokenFile(t, role))
	u.RawQuery = q.Encode()
	l, err := OpenURL(t.Context(), u, driver.Options{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err = logtest.Life(ctx, l)
	return errors.Join(err, l.Close())
}

// allow makes a tenant with a namespace, as who may do everything, in which the role has these rights.
func allow(t *testing.T, u *url.URL, role string, rights []right) {
	t.Helper()
	a := Config{ServiceURL: "pulsar://" + u.Host, AdminURL: u.Query().Get("web")}.withDefaults().admin(nil)
	t.Cleanup(a.close)
	send := func(method, path string, body any) {
		t.Helper()
		if err := a.send(t.Context(), method, path, body); err != nil {
			t.Fatal(err)
		}
	}
	admins, actions := []string{}, []string{}
	for _, r := range rights {
		if r == "admin" {
			admins = append(admins, role)
		} else {
			actions = append(actions, string(r))
		}
	}
	send(http.MethodPut, "/tenants/"+role, map[string]any{"adminRoles": admins, "allowedClusters": []string{"standalone"}})
	send(http.MethodPut, "/namespaces/"+role+"/orders", nil)
	if len(actions) > 0 {
		send(http.MethodPost, "/namespaces/"+role+"/orders/permissions/"+role, actions)
	}
}

// tokenFile makes a token of a role (JSON Web Token, RFC 7519, by HMAC with SHA-256).
func tokenFile(t *testing.T, role string) string {
	t.Helper()
	keys, err := url.Parse(testserver.URL(t, "pulsar_key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(keys.Path)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode(fmt.Appendf(nil, `{"sub":%q}`, role))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(text+"."+encode(mac.Sum(nil))), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
