package pgregistry

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// Somebody has made, or changed, a table that has one of our names; S stands for the schema.
func TestATableThatIsNotAsWeMakeItIsRefused(t *testing.T) {
	t.Parallel()
	const nothing = "CREATE FUNCTION S.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; "
	for what, c := range map[string]struct{ table, alter, found string }{
		"unlogged":            {"entry", "ALTER TABLE S.entry SET UNLOGGED", "unlogged"},
		"sessions unlogged":   {"session", "ALTER TABLE S.session SET UNLOGGED", "unlogged"},
		"row level security":  {"entry", "ALTER TABLE S.entry ENABLE ROW LEVEL SECURITY", "row level security"},
		"a rule":              {"change", "CREATE RULE r AS ON UPDATE TO S.change DO INSTEAD NOTHING", "1 rules"},
		"a trigger":           {"entry", nothing + "CREATE TRIGGER t BEFORE UPDATE ON S.entry FOR EACH ROW EXECUTE FUNCTION S.nothing()", "1 triggers"},
		"no primary key":      {"entry", "ALTER TABLE S.entry DROP CONSTRAINT entry_pkey", `primary key is ""`},
		"another primary key": {"entry", "ALTER TABLE S.entry DROP CONSTRAINT entry_pkey, ADD PRIMARY KEY (key, version)", `primary key is "key version"`},
		"a view":              {"session", "ALTER TABLE S.session RENAME TO others; CREATE VIEW S.session AS SELECT * FROM S.others", "no table"},
		"a column more":       {"", "ALTER TABLE S.entry ADD COLUMN remark text", ""},
		"a trigger behind":    {"", nothing + "CREATE TRIGGER t AFTER UPDATE ON S.entry FOR EACH ROW EXECUTE FUNCTION S.nothing()", ""},
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
