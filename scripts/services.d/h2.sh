# H2 in Oracle mode, with the wire protocol of PostgreSQL: it runs the statements that are meant
# for Oracle. Its databases are in memory and end with it.

h2_packages() { echo default-jre-headless maven; }
h2_has() { command -v java && has_maven h2-2.3.232; }
h2_install() { maven h2-2.3.232 com.h2database:h2:2.3.232; }

h2_start() { run java -Xmx256m -cp "$cache/h2-2.3.232/*" org.h2.tools.Server -pg -pgPort "$(port)" -baseDir "$dir" -ifNotExists; }
h2_ready() { (exec 3<>"/dev/tcp/127.0.0.1/$(port)"); }
h2_env() { echo "RINGFENCE_H2_URL=postgres://sa:sa@127.0.0.1:$(port)"; }
