package sqlregistry

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/registrytest"
)

// rightsOf are those of a line such as GRANT SELECT, INSERT ON app.* TO rf.
func rightsOf(t *testing.T, heading string) []string {
	t.Helper()
	lines := testserver.Rights(t, heading)
	text, ok := strings.CutPrefix(lines[0], "GRANT ")
	text, _, found := strings.Cut(text, " ON app.*")
	if len(lines) != 1 || !ok || !found {
		t.Fatalf("%q: expected one GRANT ON app.*", lines)
	}
	return strings.Split(text, ", ")
}

// The rights that the guide names are enough for every operation.
func TestTheRightsOfTheGuideAreEnough(t *testing.T) {
	t.Parallel()
	if err := withRights(t, append(rightsOf(t, "MariaDB, the first"), rightsOf(t, "MariaDB")...)); err != nil {
		t.Error(err)
	}
}

// withRights carries out every operation in a new database, as a user with these rights there.
func withRights(t *testing.T, rights []string) error {
	t.Helper()
	cfg := newDatabase(t)
	admin := rootOf(t, cfg)
	user := "rr" + strings.TrimPrefix(cfg.DBName, "ringfence_")
	exec := func(format string, args ...any) {
		t.Helper()
		if _, err := admin.Exec(fmt.Sprintf(format, args...)); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE USER %s@'%%' IDENTIFIED BY 's3cret'", user)
	t.Cleanup(func() { exec("DROP USER %s@'%%'", user) })
	exec("GRANT %s ON %s.* TO %s@'%%'", strings.Join(rights, ", "), cfg.DBName, user)
	small := cfg.Clone()
	small.User, small.Passwd = user, "s3cret"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := openMySQL(ctx, Config{MySQL: small})
	if err != nil {
		return err
	}
	defer s.Close()
	return registrytest.EveryOperation(ctx, s)
}
