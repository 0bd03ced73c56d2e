# PgBouncer before the PostgreSQL of the same folder. It pools transactions; the database named
# sessions is the same one with pooled sessions. Like PostgreSQL it refuses root.

pgbouncer_packages() { echo pgbouncer; }
pgbouncer_has() { pgbouncer_bin; }
pgbouncer_needs() { echo postgres; }
pgbouncer_signal=INT

pgbouncer_bin() { command -v pgbouncer || PATH=$PATH:/usr/sbin command -v pgbouncer; }

pgbouncer_prepare() { own postgres; }

pgbouncer_start() {
	local url server password
	url=$(value postgres RINGFENCE_POSTGRES_URL)
	password=${url#*://postgres:}
	echo "\"postgres\" \"${password%%@*}\"" >"$dir/users"
	hand postgres "$dir/users"
	server=${url#*127.0.0.1:}
	server="host=127.0.0.1 port=${server%%/*} user=postgres"
	cat >"$dir/pgbouncer.ini" <<-INI
		[databases]
		sessions = $server dbname=postgres pool_mode=session pool_size=100
		* = $server
		[pgbouncer]
		listen_addr = 127.0.0.1
		listen_port = $(port)
		unix_socket_dir =
		auth_type = scram-sha-256
		auth_file = $dir/users
		pool_mode = transaction
		default_pool_size = 20
		max_client_conn = 1000
		ignore_startup_parameters = extra_float_digits
	INI
	hand postgres "$dir/pgbouncer.ini"
	run_as postgres "$(pgbouncer_bin)" "$dir/pgbouncer.ini"
}

pgbouncer_ready() { "$(postgres_bin)/pg_isready" -h 127.0.0.1 -p "$(port)" -U postgres -d postgres; }

# It asks for the password of PostgreSQL, and gives it to that.
pgbouncer_env() {
	local url
	url=$(value postgres RINGFENCE_POSTGRES_URL)
	echo "RINGFENCE_PGBOUNCER_URL=${url%@*}@127.0.0.1:$(port)/postgres?sslmode=disable"
}
