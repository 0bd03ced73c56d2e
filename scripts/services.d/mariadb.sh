# MariaDB, which refuses to run as root. Tests make databases of their own. More options for the
# server are taken from RINGFENCE_MARIADB_OPTIONS. Not the kernel's asynchronous I/O: its requests are
# few, and the tests start many servers. Each has a folder of its own for temporary tables: as a server starts,
# it removes all that it finds of those, also of others.

mariadb_registry=yes
mariadb_packages() { echo mariadb-server; }
mariadb_has() { command -v mariadbd && command -v mysql_install_db; }

# The first users, and their password, are made by the server itself before it lets anybody in. Those
# that a new server has without a password go; the anonymous ones would shadow others on the same host.
mariadb_prepare() {
	local user
	own mysql
	template "mariadb-$(mariadbd --version | cksum | tr ' ' '-')" as mysql mysql_install_db --no-defaults --datadir="$dir/data" --innodb-use-native-aio=0 --auth-root-authentication-method=normal --skip-test-db
	printf '%s;\n' "DELETE FROM mysql.global_priv WHERE User IN ('', 'root')" "FLUSH PRIVILEGES" \
		"CREATE DATABASE IF NOT EXISTS ringfence" >first.sql
	for user in "root@'127.0.0.1'" "ringfence@'%'"; do
		printf '%s;\n' "CREATE OR REPLACE USER $user IDENTIFIED BY '$(secret)'" "GRANT ALL ON *.* TO $user WITH GRANT OPTION" >>first.sql
	done
	hand mysql first.sql
}

mariadb_start() {
	mkdir -p "$dir/tmp"
	hand mysql "$dir/tmp"
	run_as mysql "$(command -v mariadbd)" --no-defaults --datadir="$dir/data" --port="$(port)" --bind-address=127.0.0.1 \
		--init-file="$dir/first.sql" --tmpdir="$dir/tmp" --socket="$dir/data/m.sock" --pid-file="$dir/data/server.pid" --max-connections=1000 --innodb-use-native-aio=0 --innodb-buffer-pool-size=64M --skip-name-resolve \
		${RINGFENCE_MARIADB_OPTIONS-}
}

mariadb_ready() { MYSQL_PWD=$(secret) mariadb --no-defaults --protocol=tcp -h 127.0.0.1 -P "$(port)" -u ringfence -e 'SELECT 1' ringfence; }

mariadb_env() { echo "RINGFENCE_MARIADB_URL=mysql://ringfence:$(secret)@127.0.0.1:$(port)/ringfence"; }
