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

// With exactly what the guide names everything can be done, and with one right less it can't.
func TestTheRightsThatTheGuideNamesAreEnoughAndNoneTooMany(t *testing.T) {
	t.Parallel()
	later, first := rightsOf(t, "MariaDB"), rightsOf(t, "MariaDB, the first")
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		if err := withRights(t, append(first, later...)); err != nil {
			t.Error(err)
		}
	})
	for i, lacks := range append(later, first...) {
		t.Run("without "+lacks, func(t *testing.T) {
			t.Parallel()
			var some []string
			for j, r := range append(later, first...) {
				if j != i {
					some = append(some, r)
				}
			}
			if err := withRights(t, some); err == nil || !strings.Contains(err.Error(), "denied") {
				t.Errorf("%v; expected that the server denies something", err)
			}
		})
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
