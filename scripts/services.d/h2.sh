# H2 in Oracle mode, with the wire protocol of PostgreSQL: it runs the statements that are meant
# for Oracle. Its databases are in memory and end with it. Who is let in may run Java and write files
# as the server's user: it listens on loopback, makes no database for who comes along, and has a password
# of its own, which stands on no command line.

h2_packages() { echo default-jre-headless maven; }
h2_has() { command -v java && has_maven h2-2.3.232; }
h2_install() { maven h2-2.3.232 com.h2database:h2:2.3.232; }

# The database "first" is there from the start; in it tests make theirs.
h2_prepare() {
	cat >first.sql <<-SQL
		ALTER USER SA SET PASSWORD '$(secret)';
		CREATE ALIAS SERVE FOR "org.h2.tools.Server.main";
		CALL SERVE('-pg', '-pgPort', '$(port)', '-baseDir', '$dir', '-ifExists');
	SQL
}

h2_start() {
	run java -Xmx256m -Dh2.bindAddress=127.0.0.1 -cp "$cache/h2-2.3.232/*" org.h2.tools.RunScript -user sa -script first.sql \
		-url 'jdbc:h2:mem:first;MODE=PostgreSQL;DATABASE_TO_LOWER=TRUE;DEFAULT_NULL_ORDERING=HIGH;DB_CLOSE_DELAY=-1'
}

h2_ready() { (exec 3<>"/dev/tcp/127.0.0.1/$(port)"); }
h2_env() { echo "RINGFENCE_H2_URL=postgres://sa:$(secret)@127.0.0.1:$(port)/mem:first"; }
