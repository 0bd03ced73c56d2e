package pgregistry

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/registry/driver"
)

// queries are the statements, with the schema's name filled in.
type queries struct {
	name    string // of the schema
	schema  string // quoted
	channel string // quoted as an identifier

	list, listFrom     string
	commit, apply      string // see patient
	locked             string
	open, renew, sweep string
	changes, updates   string
}

const alive = `(e.session IS NULL OR EXISTS (SELECT FROM {schema}.session s WHERE s.id = e.session AND s.expires > statement_timestamp()))
	AND e.version <> '00000000-0000-0000-0000-000000000000'`

const list = `SELECT r.n, r.now, encode(e.key, 'hex'), e.version, e.session, encode(e.value, 'hex')
	FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS n, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) r
	LEFT JOIN {schema}.entry e ON {range} AND ` + alive + ` ORDER BY e.key`

// impatient first sets how many ms the function behind it may wait for a lock. A CASE keeps the order.
const impatient = `SELECT CASE WHEN set_config('ringfence.patience', '` + patienceHere + `', true) <> '' THEN `

const patienceHere = "{patience}"

// locked selects those of the keys that a transaction holds, without waiting. A transaction that only
// checks an entry does not hold it. An entry that is about to be made can't be seen.
const locked = `WITH free AS MATERIALIZED (SELECT e.key FROM {schema}.entry e WHERE e.key = ANY ($1) FOR SHARE SKIP LOCKED)
	SELECT e.key FROM {schema}.entry e WHERE e.key = ANY ($1) EXCEPT SELECT key FROM free`

// sweep ends the given sessions and the expired ones (sweep_1). With them it ends those that expire later
// than any TTL allows, as the clock of the server was set back, and names them.
const sweep = `WITH ahead AS MATERIALIZED (SELECT x.id, x.expires::text AS expires FROM {schema}.session x WHERE x.expires > clock_timestamp() + interval '{longest}')
	SELECT session_id, held_by, held, left_ms, NULL FROM {schema}.sweep_1($1 || ARRAY(SELECT a.id FROM ahead a))
	UNION ALL SELECT a.id, 0, false, 0, a.expires FROM ahead a`

func newQueries(schema string) queries {
	q := queries{name: schema, schema: pgx.Identifier{schema}.Sanitize(), channel: pgx.Identifier{channel(schema)}.Sanitize()}
	q.list = q.fill(strings.Replace(list, "{range}", "e.key >= $1 AND e.key < $2", 1))
	q.listFrom = q.fill(strings.Replace(list, "{range}", "e.key >= $1", 1))
	q.commit = q.fill(impatient + `{schema}.commit_1($1, $2, $3, $4, $5, $6) END`)
	q.apply = q.fill(impatient + `{schema}.apply_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) END`)
	q.locked = q.fill(locked)
	q.open = q.fill(`WITH opened AS (
			INSERT INTO {schema}.session VALUES ($1, $2, make_interval(secs => $3), clock_timestamp() + make_interval(secs => $3)) RETURNING id
		) SELECT {schema}.tell_1('s ') FROM opened`)
	q.renew = q.fill(`UPDATE {schema}.session SET expires = clock_timestamp() + ttl WHERE id = $1 AND expires > clock_timestamp()`)
	q.sweep = q.fill(sweep)
	q.changes = q.fill(`SELECT sum(n)::bigint FROM {schema}.change`)
	q.updates = q.fill(`SELECT pg_stat_get_tuples_updated('{schema}.entry'::regclass)`)
	return q
}

// fill completes a text of this package.
func (q queries) fill(text string) string {
	return strings.NewReplacer(
		"{schema}", q.schema,
		"{channel}", "'"+channel(q.name)+"'",
		"{longest}", strconv.Itoa(int(driver.MaxSessionTTL.Seconds()))+" s",
		"{plans}", "SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off",
	).Replace(text)
}

// channel is the notification channel of a schema.
func channel(schema string) string { return "ringfence:" + schema }
