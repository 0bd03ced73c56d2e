package sqlregistry

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
)

// Somebody has made, or changed, a table that has one of our names.
func TestATableThatIsNoneOfOursIsRefused(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ table, alter string }{
		"without transactions":           {"ringfence_entries", "ALTER TABLE ringfence_entries ENGINE=MyISAM"},
		"in memory":                      {"ringfence_slots", "ALTER TABLE ringfence_slots ENGINE=MEMORY"},
		"a key that ignores case":        {"ringfence_entries", "ALTER TABLE ringfence_entries MODIFY k VARCHAR(700) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL"},
		"a version that ignores case":    {"ringfence_entries", "ALTER TABLE ringfence_entries MODIFY version VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL"},
		"a short key":                    {"ringfence_entries", "ALTER TABLE ringfence_entries MODIFY k VARBINARY(80) NOT NULL"},
		"no primary key":                 {"ringfence_sessions", "ALTER TABLE ringfence_sessions DROP PRIMARY KEY"},
		"another primary key":            {"ringfence_sessions", "ALTER TABLE ringfence_sessions DROP PRIMARY KEY, ADD PRIMARY KEY (process)"},
		"a primary key of several":       {"ringfence_entries", "ALTER TABLE ringfence_entries DROP PRIMARY KEY, ADD PRIMARY KEY (k, version)"},
		"a revision that overflows":      {"ringfence_revision", "ALTER TABLE ringfence_revision MODIFY revision INT NOT NULL"},
		"without a column":               {"ringfence_listeners", "ALTER TABLE ringfence_listeners DROP COLUMN since"},
		"a view":                         {"ringfence_slots", "RENAME TABLE ringfence_slots TO others; CREATE VIEW ringfence_slots AS SELECT * FROM others"},
		"":                               {"", "ALTER TABLE ringfence_entries ADD COLUMN remark INT NULL"},
		"(nothing but more room for it)": {"", "ALTER TABLE ringfence_entries MODIFY k VARBINARY(760) NOT NULL"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cfg := newDatabase(t)
			openStore(t, Config{MySQL: cfg}).Close()
			db := sqlDB(t, cfg)
			for alter := range strings.SplitSeq(c.alter, "; ") {
				if _, err := db.Exec(alter); err != nil {
					t.Fatal(err)
				}
			}
			s, err := open(t.Context(), Config{MySQL: cfg})
			if err == nil {
				s.Close()
			}
			if c.table == "" && err == nil {
				return
			}
			if c.table == "" || !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "table "+c.table+" ") {
				t.Errorf("%v; expected that %q is refused", err, c.table)
			}
		})
	}
}
