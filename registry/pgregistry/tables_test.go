package pgregistry

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// S stands for the schema.
func TestOpenRefusesTablesThatMayLoseWrites(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ table, alter, found string }{
		"unlogged":            {"entry", "ALTER TABLE S.entry SET UNLOGGED", "unlogged"},
		"sessions unlogged":   {"session", "ALTER TABLE S.session SET UNLOGGED", "unlogged"},
		"row level security":  {"entry", "ALTER TABLE S.entry ENABLE ROW LEVEL SECURITY", "row level security"},
		"no primary key":      {"entry", "ALTER TABLE S.entry DROP CONSTRAINT entry_pkey", `primary key is ""`},
		"another primary key": {"entry", "ALTER TABLE S.entry DROP CONSTRAINT entry_pkey, ADD PRIMARY KEY (key, version)", `primary key is "key version"`},
		"a column more":       {"", "ALTER TABLE S.entry ADD COLUMN remark text", ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newStore(t, testserver.URL(t, "postgres"))
			put(t, d.open(t, driver.Options{}), "k", "v")
			execute(t, d.url, strings.ReplaceAll(c.alter, "S.", d.schema+"."))
			s, err := open(t.Context(), Config{URL: d.url, Schema: d.schema})
			if err == nil {
				_ = s.Close()
			}
			if c.table == "" && err == nil {
				return
			}
			if c.table == "" || !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "."+c.table+" is not as") || !strings.Contains(err.Error(), c.found) {
				t.Errorf("%v; expected that table %q is refused: %q", err, c.table, c.found)
			}
		})
	}
}
