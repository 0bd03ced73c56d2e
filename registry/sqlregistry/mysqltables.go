package sqlregistry

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
)

// checkMySQLTables is fault.Corrupt if a table has another engine than InnoDB. A server without InnoDB makes
// tables of its default engine instead, with a warning only, and without transactions the fence is lost.
func checkMySQLTables(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT LOWER(TABLE_NAME), COALESCE(ENGINE, '') FROM information_schema.TABLES
		WHERE TABLE_SCHEMA = DATABASE() AND LEFT(TABLE_NAME, 10) = 'ringfence_'`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err reports a failure
	for rows.Next() {
		var table, engine string
		if err := rows.Scan(&table, &engine); err != nil {
			return err
		}
		if !strings.EqualFold(engine, "InnoDB") {
			return fmt.Errorf("table %s has the engine %q; expected InnoDB: name another database, or, while no process uses it, run ALTER TABLE … ENGINE=InnoDB: %w",
				table, engine, fault.Corrupt)
		}
	}
	return rows.Err()
}
