# MariaDB, which refuses to run as root. Tests make databases of their own. More options for the
# server are taken from RINGFENCE_MARIADB_OPTIONS. Not the kernel's asynchronous I/O: its requests are
# few, and the tests start many servers.

mariadb_packages() { echo mariadb-server; }
mariadb_has() { command -v mariadbd && command -v mysql_install_db; }

mariadb_prepare() {
	own mysql
	as mysql mysql_install_db --no-defaults --user=mysql --datadir="$dir/data" --innodb-use-native-aio=0 --auth-root-authentication-method=normal --skip-test-db
}

mariadb_start() {
	run_as mysql "$(command -v mariadbd)" --no-defaults --datadir="$dir/data" --port="$(port)" --bind-address=127.0.0.1 \
		--socket="$dir/data/m.sock" --pid-file="$dir/data/server.pid" --max-connections=1000 --innodb-use-native-aio=0 --innodb-buffer-pool-size=64M --skip-name-resolve \
		${RINGFENCE_MARIADB_OPTIONS-}
}

mariadb_sql() { mariadb --no-defaults --protocol=tcp -h 127.0.0.1 -P "$(port)" -u root -e "$1"; }

# The anonymous users of a new server would shadow others on the same host.
mariadb_ready() {
	mariadb_sql "CREATE DATABASE IF NOT EXISTS ringfence; CREATE USER IF NOT EXISTS ringfence@'%' IDENTIFIED BY 'ring/fence';
		GRANT ALL ON *.* TO ringfence@'%'; DELETE FROM mysql.global_priv WHERE User = ''; FLUSH PRIVILEGES"
}

mariadb_env() { echo "RINGFENCE_MARIADB_URL=mysql://ringfence:ring%2Ffence@127.0.0.1:$(port)/ringfence"; }
