-- Format 1. {schema} is replaced by the quoted name of the schema.
--
-- A key is the namespace, a NUL byte, and the key of the registry. A version is 80 random bits of the writer
-- and its count. Locks are taken in this order: session rows by id, entries by key, one row of change last.
-- An absent key is locked by inserting a placeholder, which is deleted before the commit. Notifications go to the
-- channel ringfence:SCHEMA: 's' when sessions changed, else '-', a blank, and the changed keys in base64, or '*'.
-- The rows of format and change are never deleted: without one of them the registry is damaged, not empty.

CREATE SCHEMA IF NOT EXISTS {schema};

CREATE TABLE {schema}.format (level int NOT NULL);

-- One row a key. A version of zeros is a placeholder: the key is absent, and locked or was.
-- Only the key and the session of bound entries are indexed, so that a checkpoint is a heap-only update.
CREATE TABLE {schema}.entry (
	key     bytea PRIMARY KEY,
	version uuid  NOT NULL,
	session uuid,
	value   bytea NOT NULL
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.2);
CREATE INDEX entry_session ON {schema}.entry (session) WHERE session IS NOT NULL;

-- holder is the advisory lock that the process holds as long as it lives; 0: it holds none.
CREATE TABLE {schema}.session (
	id      uuid PRIMARY KEY,
	holder  bigint      NOT NULL,
	ttl     interval    NOT NULL,
	expires timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Counts changes, for those who can't be notified. Many rows, so that writers do not queue.
CREATE TABLE {schema}.change (
	slot int    PRIMARY KEY,
	n    bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO {schema}.change SELECT slot, 0 FROM generate_series(0, 15) slot;

-- What every write does first: be durable whatever the database's default is, and give up on a
-- row that somebody's open transaction keeps locked, with the certainty that nothing was written:
-- after three seconds, or as many ms as the setting ringfence.patience says.
CREATE FUNCTION {schema}.begin_1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
	PERFORM set_config('lock_timeout', coalesce(nullif(current_setting('ringfence.patience', true), ''), '3000'), true);
END $$;

-- Tells watchers. The notification is sent at commit, which takes a lock that all notifying
-- transactions of the cluster share: never call it for a checkpoint.
CREATE FUNCTION {schema}.tell_1(payload text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	any_slot int := floor(random() * 16);
BEGIN
	UPDATE {schema}.change SET n = n + 1 WHERE slot = any_slot;
	PERFORM pg_notify({channel}, payload);
END $$;

-- Entries are locked by key, the last one first: owners before checkpoints, which commit_1 locks
-- only where it found the owner that it expected.

-- {plans} makes plans that do not depend on how many keys there are or on statistics that have
-- aged: one that is kept, and goes through the indexes. Where there is no index to go through
-- that looks so costly that the server would compile it.

-- commit_1 applies transactions of one form, in one statement: a put of a key that exists
-- (pk, pv, its new version pu) under a check of another key (ck has version cv) and, where pa is
-- not null, of its own version. It returns the numbers, from 1, of those that it applied.
CREATE FUNCTION {schema}.commit_1(checked bytea[], versions uuid[], keys bytea[], contents bytea[], news uuid[], afters uuid[])
RETURNS int[] LANGUAGE plpgsql {plans} AS $$
DECLARE
	done int[];
BEGIN
	PERFORM {schema}.begin_1();
	WITH want AS (
		SELECT * FROM unnest(checked, versions, keys, contents, news, afters) WITH ORDINALITY AS w (ck, cv, pk, pv, pu, pa, n)
	), held AS MATERIALIZED (
		-- The lock keeps the checked entries as they are until the commit, and shows their newest version.
		SELECT e.key, e.version FROM {schema}.entry e WHERE e.key = ANY (checked) AND e.session IS NULL ORDER BY e.key DESC FOR SHARE
	), put AS (
		UPDATE {schema}.entry e SET version = w.pu, value = w.pv
		FROM want w JOIN held h ON h.key = w.ck AND h.version = w.cv
		WHERE e.key = w.pk AND e.session IS NULL AND (w.pa IS NULL OR e.version = w.pa)
		AND e.version <> '00000000-0000-0000-0000-000000000000'
		RETURNING w.n
	) SELECT array_agg(n) INTO done FROM put;
	RETURN done;
END $$;

-- apply_1 applies any transactions, in order, each all or nothing. Checks (ct is the number of
-- the transaction, from 1; ck its key; cv the version, null for absent), puts (pt, pk, value pv,
-- new version pu, session ps or null) and deletes (dt, dk) come sorted by transaction. It returns
-- the fate of each: 0 applied, -1 the session of a put has ended, n > 0 its n-th check failed.
-- When one of the loud ones was applied, watchers get the payload.
CREATE FUNCTION {schema}.apply_1(loud bool[], payload text,
	ct int[], ck bytea[], cv uuid[], pt int[], pk bytea[], pv bytea[], pu uuid[], ps uuid[], dt int[], dk bytea[])
RETURNS int[] LANGUAGE plpgsql {plans} AS $$
DECLARE
	vacant CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
	keys   bytea[] := ck || pk || dk;
	fates  int[] := '{}';
	alive  uuid[] := '{}';
	placed int;
	-- Whether a session has expired is asked of a time before the reading, or one that was renewed
	-- in between would count as expired.
	moment timestamptz := clock_timestamp();
	have   uuid;
	fate   int;
	first  int;
	c      int := 1;
	p      int := 1;
	d      int := 1;
	tell   bool := false;
BEGIN
	PERFORM {schema}.begin_1();
	-- Sessions are locked before entries, as those do that end them. Renewals pass this lock.
	IF array_length(array_remove(ps, NULL), 1) > 0 THEN
		SELECT coalesce(array_agg(s.id), '{}') INTO alive FROM (
			SELECT x.id, x.expires FROM {schema}.session x WHERE x.id = ANY (ps) ORDER BY x.id FOR KEY SHARE
		) s WHERE s.expires > moment;
	END IF;
	-- All keys are locked, the last one first. One that is absent gets a placeholder, which makes
	-- others who want to create it wait. The update never happens; its row lock does.
	INSERT INTO {schema}.entry AS e (key, version, value)
	SELECT k, vacant, '' FROM (SELECT DISTINCT unnest(keys) AS k) s ORDER BY k DESC
	ON CONFLICT (key) DO UPDATE SET version = e.version WHERE false;
	GET DIAGNOSTICS placed = ROW_COUNT;
	moment := clock_timestamp();

	FOR i IN 1 .. array_length(loud, 1) LOOP
		fate := 0;
		first := c;
		WHILE ct[c] = i LOOP
			IF fate = 0 THEN
				SELECT e.version INTO have FROM {schema}.entry e WHERE e.key = ck[c] AND e.version <> vacant AND (e.session IS NULL
					OR EXISTS (SELECT FROM {schema}.session s WHERE s.id = e.session AND s.expires > moment));
				IF have IS DISTINCT FROM cv[c] THEN
					fate := c - first + 1;
				END IF;
			END IF;
			c := c + 1;
		END LOOP;
		first := p;
		WHILE pt[p] = i LOOP
			IF fate = 0 AND ps[p] IS NOT NULL AND ps[p] <> ALL (alive) THEN
				fate := -1;
			END IF;
			p := p + 1;
		END LOOP;
		IF fate = 0 THEN
			FOR j IN first .. p - 1 LOOP
				UPDATE {schema}.entry SET version = pu[j], value = pv[j], session = ps[j] WHERE key = pk[j];
			END LOOP;
		END IF;
		WHILE dt[d] = i LOOP
			IF fate = 0 THEN
				UPDATE {schema}.entry SET version = vacant, value = '', session = NULL WHERE key = dk[d];
				placed := placed + 1;
			END IF;
			d := d + 1;
		END LOOP;
		tell := tell OR (fate = 0 AND loud[i]);
		fates := fates || fate;
	END LOOP;

	IF placed > 0 THEN
		DELETE FROM {schema}.entry WHERE key = ANY (keys) AND version = vacant;
	END IF;
	IF tell THEN
		PERFORM {schema}.tell_1(payload);
	END IF;
	RETURN fates;
END $$;

-- sweep_1 ends the given sessions and all that have expired, with their entries, and returns
-- those that live on, and whether their process holds its lock. It writes nothing when there is
-- nothing to end.
CREATE FUNCTION {schema}.sweep_1(dead uuid[]) RETURNS TABLE (session_id uuid, held_by bigint, held bool, left_ms float8)
LANGUAGE plpgsql {plans} AS $$
DECLARE
	ended  uuid[];
	gone   text;
	moment timestamptz;
BEGIN
	PERFORM {schema}.begin_1();
	SELECT array_agg(s.id) INTO ended FROM (
		SELECT x.id FROM {schema}.session x WHERE x.id = ANY (dead) OR x.expires <= clock_timestamp() ORDER BY x.id FOR UPDATE
	) s;
	IF ended IS NOT NULL THEN
		DELETE FROM {schema}.session x WHERE x.id = ANY (ended);
		WITH doomed AS (
			SELECT e.key FROM {schema}.entry e WHERE e.session = ANY (ended) ORDER BY e.key DESC FOR UPDATE
		), deleted AS (
			DELETE FROM {schema}.entry e USING doomed o WHERE e.key = o.key AND e.session = ANY (ended) RETURNING e.key
		) SELECT string_agg(replace(encode(key, 'base64'), E'\n', ''), ' ') INTO gone FROM deleted;
		IF length(gone) > 7800 THEN
			gone := '*';
		END IF;
		PERFORM {schema}.tell_1('s ' || coalesce(gone, ''));
	END IF;
	moment := clock_timestamp(); -- before the reading, as in apply_1
	RETURN QUERY WITH locked AS MATERIALIZED (
		SELECT DISTINCT l.classid::bigint << 32 | l.objid::bigint AS holder FROM pg_locks l JOIN pg_database b ON b.oid = l.database
		WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.mode = 'ExclusiveLock' AND l.granted AND b.datname = current_database()
	) SELECT x.id, x.holder, l.holder IS NOT NULL, (extract(epoch FROM x.expires - moment) * 1000)::float8
	FROM {schema}.session x LEFT JOIN locked l ON l.holder = x.holder WHERE x.expires > moment;
END $$;

INSERT INTO {schema}.format VALUES (1);
