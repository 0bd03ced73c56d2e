package peer

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/internal/script"
)

// More connections than this cost PostgreSQL more than they bring on a small machine.
const postgresConns = 64

// postgresStore is one table of a PostgreSQL of its own.
type postgresStore struct{ pool *pgxpool.Pool }

func openPostgres(ctx context.Context, s *script.Script, o Options) Store {
	password := rand.Text()
	port := startPostgres(ctx, s, o, password)
	c := must(pgxpool.ParseConfig(fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%s/postgres?sslmode=disable", password, port)))
	c.MaxConns = int32(min(max(o.InFlight, 1), postgresConns))
	c.MinConns = c.MaxConns
	pool := must(pgxpool.NewWithConfig(ctx, c))
	s.Later(func() error { pool.Close(); return nil })
	must(pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS records (position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, value bytea NOT NULL)"))
	return &postgresStore{pool}
}

// startPostgres starts a server with a password: every user of the machine reaches it, and its superuser runs commands.
func startPostgres(ctx context.Context, s *script.Script, o Options, password string) (port string) {
	bin := filepath.Dir(findServer("postgres"))
	cred := postgresUser(o.Dir)
	data := filepath.Join(o.Dir, "data")
	setup := func(cmd *exec.Cmd) { cmd.Dir, cmd.SysProcAttr = o.Dir, &syscall.SysProcAttr{Credential: cred} }
	first := filepath.Join(o.Dir, "password")
	check(os.WriteFile(first, []byte(password), 0o600))
	if cred != nil {
		check(os.Chown(first, int(cred.Uid), -1))
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-A", "scram-sha-256", "--pwfile", first, "-U", "postgres", "-E", "UTF8", "--no-sync", "-D", data)
	setup(initdb)
	if out, err := initdb.CombinedOutput(); err != nil {
		check(fmt.Errorf("initdb: %w: %s", err, out))
	}
	port = freePort()
	startProcess(ctx, s, filepath.Join(o.Dir, "postgres.log"), setup, func() error {
		return exec.CommandContext(ctx, filepath.Join(bin, "pg_isready"), "-h", "127.0.0.1", "-p", port).Run()
	}, filepath.Join(bin, "postgres"), "-D", data, "-p", port, "-k", o.Dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=256MB", "-c", "max_wal_size=8GB")
	return port
}

// postgresUser hands dir to the user postgres when run as root, under which the server refuses to start; else nil.
func postgresUser(dir string) *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	u := must(user.Lookup("postgres"))
	uid, gid := must(strconv.ParseUint(u.Uid, 10, 32)), must(strconv.ParseUint(u.Gid, 10, 32))
	// Folders of os.MkdirTemp are closed to others, and the way to dir has to be open.
	for up := filepath.Dir(dir); len(up) > len(os.TempDir()); up = filepath.Dir(up) {
		check(os.Chmod(up, 0o755))
	}
	check(os.Chown(dir, int(uid), int(gid)))
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// Appender inserts with one statement, however many values there are.
func (s *postgresStore) Appender() Append {
	return func(ctx context.Context, values [][]byte) {
		if len(values) == 1 {
			must(s.pool.Exec(ctx, "INSERT INTO records (value) VALUES ($1)", values[0]))
		} else {
			must(s.pool.Exec(ctx, "INSERT INTO records (value) SELECT unnest($1::bytea[])", values))
		}
	}
}
