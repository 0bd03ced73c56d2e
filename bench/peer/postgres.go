package peer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
)

// More connections than this cost PostgreSQL more than they bring on a small machine.
const postgresConns = 64

// postgresStore is one table of a PostgreSQL of its own.
type postgresStore struct {
	server *process
	pool   *pgxpool.Pool
}

// postgresBin finds the folder of the server's programs, which Debian keeps off the PATH.
func postgresBin() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errors.New("no PostgreSQL server found; install the package postgresql")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

func hasPostgres() bool {
	_, err := postgresBin()
	return err == nil
}

func openPostgres(ctx context.Context, o Options) (Store, error) {
	password := rand.Text()
	server, port, err := startPostgres(ctx, o, password)
	if err != nil {
		return nil, err
	}
	pool, err := connectPostgres(ctx, port, password, min(max(o.InFlight, 1), postgresConns))
	if err != nil {
		return nil, errors.Join(err, server.stop())
	}
	return &postgresStore{server: server, pool: pool}, nil
}

// startPostgres starts a server that asks for a password: everybody on this machine reaches it, and its
// superuser may run commands.
func startPostgres(ctx context.Context, o Options, password string) (*process, string, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, "", err
	}
	cred, err := postgresUser(o.Dir)
	if err != nil {
		return nil, "", err
	}
	data := filepath.Join(o.Dir, "data")
	setup := func(cmd *exec.Cmd) { cmd.Dir, cmd.SysProcAttr = o.Dir, &syscall.SysProcAttr{Credential: cred} }
	first := filepath.Join(o.Dir, "password")
	if err := os.WriteFile(first, []byte(password), 0o600); err != nil {
		return nil, "", err
	}
	if cred != nil {
		if err := os.Chown(first, int(cred.Uid), -1); err != nil {
			return nil, "", err
		}
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-A", "scram-sha-256", "--pwfile", first, "-U", "postgres", "-E", "UTF8", "--no-sync", "-D", data)
	setup(initdb)
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("initdb: %w: %s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	commit := "off"
	if o.Durability == Sync {
		commit = "on"
	}
	p, err := startProcess(ctx, filepath.Join(o.Dir, "postgres.log"), setup, func() error {
		return exec.CommandContext(ctx, filepath.Join(bin, "pg_isready"), "-h", "127.0.0.1", "-p", port).Run()
	}, filepath.Join(bin, "postgres"), "-D", data, "-p", port, "-k", o.Dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "synchronous_commit="+commit, "-c", "shared_buffers=256MB", "-c", "max_wal_size=8GB")
	return p, port, err
}

// postgresUser hands dir to the user postgres when the benchmark runs as root, under which the
// server refuses to start; nil for anybody else.
func postgresUser(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil //nolint:nilnil // no credential means the user one has
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	// Folders of os.MkdirTemp are closed to others, and the way to dir has to be open.
	for up := filepath.Dir(dir); len(up) > len(os.TempDir()); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			return nil, err
		}
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid))
}

func connectPostgres(ctx context.Context, port, password string, conns int) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%s/postgres?sslmode=disable", password, port))
	if err != nil {
		return nil, err
	}
	c.MaxConns, c.MinConns = int32(conns), int32(conns)
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS records (position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, value bytea NOT NULL)")
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// Appender inserts with one statement, however many values there are.
func (s *postgresStore) Appender() (Append, error) {
	return func(ctx context.Context, values [][]byte) error {
		if len(values) == 1 {
			_, err := s.pool.Exec(ctx, "INSERT INTO records (value) VALUES ($1)", values[0])
			return err
		}
		_, err := s.pool.Exec(ctx, "INSERT INTO records (value) SELECT unnest($1::bytea[])", values)
		return err
	}, nil
}

func (s *postgresStore) Close() error {
	s.pool.Close()
	return s.server.stop()
}
