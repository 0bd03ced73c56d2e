# PostgreSQL, which refuses to run as root. Its programs are not on the PATH in Debian.

postgres_registry=yes
postgres_packages() { echo postgresql; }
postgres_has() { postgres_bin; }
postgres_signal=INT

postgres_bin() {
	local d
	d=$(command -v postgres || true)
	if [ -n "$d" ]; then dirname "$(readlink -f "$d")"; return; fi
	for d in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V -r); do
		if [ -x "$d/postgres" ]; then echo "$d"; return; fi
	done
	return 1
}

postgres_prepare() {
	own postgres
	template "postgres-$("$(postgres_bin)/postgres" --version | cksum | tr ' ' '-')" postgres_init
}

postgres_init() {
	secret >first
	hand postgres first
	as postgres "$(postgres_bin)/initdb" -A scram-sha-256 --pwfile="$dir/first" -U postgres -E UTF8 --no-sync -D "$dir/data"
	rm first
}

# The lock files of a killed server are removed: where nobody reaps orphans (some containers) it
# stays a zombie, which a new one takes for a running server.
postgres_start() {
	rm -f "$dir/data/postmaster.pid" "$dir"/data/.s.PGSQL.*
	run_as postgres "$(postgres_bin)/postgres" -D "$dir/data" -p "$(port)" -k "$dir/data" -c listen_addresses=127.0.0.1 \
		-c max_connections=400
}

postgres_ready() { "$(postgres_bin)/pg_isready" -h 127.0.0.1 -p "$(port)"; }
postgres_env() { echo "RINGFENCE_POSTGRES_URL=postgres://postgres:$(secret)@127.0.0.1:$(port)/postgres?sslmode=disable"; }
