package pgregistry

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/registrytest"
)

// With exactly what the guide names everything can be done, and with one right less it can't.
func TestTheRightsThatTheGuideNamesAreEnoughAndNoneTooMany(t *testing.T) {
	t.Parallel()
	lines := testserver.Rights(t, "PostgreSQL")
	if len(lines) != 2 || lines[0] != "GRANT USAGE ON SCHEMA ringfence TO rf" {
		t.Fatalf("%q: expected USAGE, and then the rights on tables", lines)
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(lines[1], "GRANT "), " ON ALL TABLES IN SCHEMA ringfence TO rf")
	onTables := strings.Split(text, ", ")
	for _, lacks := range append([]string{"", "USAGE"}, onTables...) {
		t.Run("without "+lacks, func(t *testing.T) {
			t.Parallel()
			d := newStore(t, testserver.URL(t, "postgres"))
			d.open(t, driver.Options{})
			role := "rights_" + d.schema
			execute(t, d.url, "CREATE ROLE "+role+" LOGIN PASSWORD '"+secret+"'")
			t.Cleanup(func() { execute(t, d.url, "DROP OWNED BY "+role); execute(t, d.url, "DROP ROLE "+role) })
			if lacks != "USAGE" {
				execute(t, d.url, "GRANT USAGE ON SCHEMA "+d.schema+" TO "+role)
			}
			some := slices.DeleteFunc(slices.Clone(onTables), func(r string) bool { return r == lacks })
			execute(t, d.url, "GRANT "+strings.Join(some, ", ")+" ON ALL TABLES IN SCHEMA "+d.schema+" TO "+role)
			u, err := url.Parse(d.url)
			if err != nil {
				t.Fatal(err)
			}
			u.User = url.UserPassword(role, secret)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			s, err := open(ctx, Config{URL: u.String(), Schema: d.schema})
			if err == nil {
				err = registrytest.EveryOperation(ctx, s)
				_ = s.Close()
			}
			switch {
			case lacks == "" && err != nil:
				t.Error(err)
			case lacks != "" && (err == nil || !strings.Contains(err.Error(), "permission denied") && !strings.Contains(err.Error(), lacks)):
				t.Errorf("%v; expected that the server denies something", err)
			}
		})
	}
}
