package sqlregistry

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
)

func TestOpenRefusesTablesWithoutTransactions(t *testing.T) {
	t.Parallel()
	for table, engine := range map[string]string{"ringfence_entries": "MyISAM", "ringfence_slots": "MEMORY"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			cfg := newDatabase(t)
			openStore(t, Config{MySQL: cfg}).Close()
			if _, err := sqlDB(t, cfg).Exec("ALTER TABLE " + table + " ENGINE=" + engine); err != nil {
				t.Fatal(err)
			}
			s, err := open(t.Context(), Config{MySQL: cfg})
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "table "+table+" ") {
				t.Errorf("%v; expected that %q is refused", err, table)
			}
		})
	}
}
