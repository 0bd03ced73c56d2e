package sqlregistry

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
)

// CREATE TABLE IF NOT EXISTS takes over whatever table has the name. One of an engine without transactions loses
// the fence, a key that ignores case makes two keys one, and one without a primary key takes both of two that
// create it. So what is there is held against what ours are, at each opening: a table is made once, and lives long.

// mysqlColumn is a column of a table of ours.
type mysqlColumn struct {
	name, kind string // data type, and the collation of a text
	room       int64  // bytes or characters that it has to take; 0: as many as its type takes
}

// mysqlTable is a table of ours. Its primary key is its first column.
type mysqlTable struct {
	name    string
	columns []mysqlColumn
}

func mysqlTables() []mysqlTable {
	id := func(name string) mysqlColumn { return mysqlColumn{name, "varchar latin1_bin", 40} }
	plain := func(name, kind string) mysqlColumn { return mysqlColumn{name: name, kind: kind} }
	return []mysqlTable{
		{"ringfence_entries", []mysqlColumn{{"k", "varbinary", 700}, id("version"), id("session_id"), plain("content", "longblob")}},
		{"ringfence_sessions", []mysqlColumn{id("id"), id("process"), plain("ttl", "bigint"), plain("expires", "bigint")}},
		{"ringfence_changes", []mysqlColumn{plain("revision", "bigint"), plain("change_keys", "longblob")}},
		{"ringfence_revision", []mysqlColumn{plain("id", "int"), plain("revision", "bigint")}},
		{"ringfence_listeners", []mysqlColumn{id("process"), plain("since", "bigint")}},
		{"ringfence_slots", []mysqlColumn{plain("id", "int"), plain("used", "int")}},
		{"ringfence_schema", []mysqlColumn{plain("id", "int"), plain("version", "int")}},
	}
}

// foundColumn is a column as the server describes it.
type foundColumn struct {
	kind    string
	room    int64
	primary bool
}

// checkMySQLTables is fault.Corrupt when a table is not as this program makes it.
func checkMySQLTables(ctx context.Context, db *sql.DB) error {
	if err := checkMySQLEngines(ctx, db); err != nil {
		return err
	}
	found, err := mysqlColumns(ctx, db)
	if err != nil {
		return err
	}
	for _, t := range mysqlTables() {
		have := found[t.name]
		for i, c := range t.columns {
			switch f, ok := have[c.name]; {
			case !ok:
				return otherTable(t.name, "it has no column "+c.name, c.kind)
			case f.kind != c.kind:
				return otherTable(t.name, fmt.Sprintf("its column %s is a %s", c.name, f.kind), c.kind)
			case f.room < c.room:
				return otherTable(t.name, fmt.Sprintf("its column %s takes %d bytes", c.name, f.room), fmt.Sprint(c.room))
			case f.primary != (i == 0):
				return otherTable(t.name, "its primary key is another one", t.columns[0].name+" alone")
			}
		}
		for name, f := range have {
			if f.primary && name != t.columns[0].name {
				return otherTable(t.name, "its primary key has the column "+name, t.columns[0].name+" alone")
			}
		}
	}
	return nil
}

func checkMySQLEngines(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT LOWER(TABLE_NAME), TABLE_TYPE, COALESCE(ENGINE, '') FROM information_schema.TABLES
		WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN (`+names()+`) LIMIT 16`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err says whether it failed
	for rows.Next() {
		var table, what, engine string
		if err := rows.Scan(&table, &what, &engine); err != nil {
			return err
		}
		if what != "BASE TABLE" || !strings.EqualFold(engine, "InnoDB") {
			return otherTable(table, fmt.Sprintf("it is a %s of the engine %q", strings.ToLower(what), engine), "a table of the engine InnoDB")
		}
	}
	return rows.Err()
}

// mysqlColumns are the columns of our tables, by table and name. A server makes a temporary table on its disk for
// each part of such a query, so this one has a single part.
func mysqlColumns(ctx context.Context, db *sql.DB) (map[string]map[string]foundColumn, error) {
	rows, err := db.QueryContext(ctx, `SELECT LOWER(TABLE_NAME), COLUMN_NAME, TRIM(CONCAT(DATA_TYPE, ' ', COALESCE(COLLATION_NAME, ''))),
		COALESCE(CHARACTER_MAXIMUM_LENGTH, 0), COLUMN_KEY = 'PRI' FROM information_schema.COLUMNS
		WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN (`+names()+`) LIMIT 256`) // of others' columns so many are enough
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err says whether it failed
	found := map[string]map[string]foundColumn{}
	for rows.Next() {
		var table, name string
		var c foundColumn
		if err := rows.Scan(&table, &name, &c.kind, &c.room, &c.primary); err != nil {
			return nil, err
		}
		if found[table] == nil {
			found[table] = map[string]foundColumn{}
		}
		found[table][name] = c
	}
	return found, rows.Err()
}

func names() string {
	all := mysqlTables()
	return "'" + strings.Join(slices.Collect(func(yield func(string) bool) {
		for _, t := range all {
			if !yield(t.name) {
				return
			}
		}
	}), "', '") + "'"
}

func otherTable(table, found, expected string) error {
	return fmt.Errorf("table %s is none that this program has made: %.200s; expected %s. Name another database, or, while no process uses it, put it right (ALTER TABLE) or drop all tables ringfence_* if nothing in them is needed: %w",
		table, found, expected, fault.Corrupt)
}
