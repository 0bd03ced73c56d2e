package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/redis/rueidis"
)

const redisKey = "bench"

// redisStore is one stream of a redis-server of its own.
type redisStore struct {
	server *process
	client rueidis.Client
}

func hasRedis() bool {
	_, err := exec.LookPath("redis-server")
	return err == nil
}

func openRedis(ctx context.Context, o Options) (Store, error) {
	// No snapshots and no rewriting of the append-only file: the log is what is measured.
	policy := "everysec"
	if o.Durability == Sync {
		policy = "always"
	}
	socket := filepath.Join(o.Dir, "redis.sock")
	p, err := startProcess(ctx, filepath.Join(o.Dir, "redis.log"), func(*exec.Cmd) {}, func() error {
		c, err := net.DialTimeout("unix", socket, time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	}, "redis-server", "--port", "0", "--unixsocket", socket, "--dir", o.Dir, "--save", "", "--appendonly", "yes", "--appendfsync", policy,
		"--auto-aof-rewrite-percentage", "0", "--daemonize", "no")
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{socket},
		DialCtxFn:         dialUnix,
		DisableCache:      true,
		PipelineMultiplex: 0,
		ForceSingleClient: true,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to redis-server: %w", err), p.stop())
	}
	return &redisStore{server: p, client: client}, nil
}

func (s *redisStore) add(value []byte) rueidis.Completed {
	return s.client.B().Xadd().Key(redisKey).Id("*").FieldValue().FieldValue("v", rueidis.BinaryString(value)).Build()
}

// Appender adds one entry with one command, several with one pipeline.
func (s *redisStore) Appender() (Append, error) {
	var cmds []rueidis.Completed
	return func(ctx context.Context, values [][]byte) error {
		if len(values) == 1 {
			return s.client.Do(ctx, s.add(values[0])).Error()
		}
		cmds = cmds[:0]
		for _, v := range values {
			cmds = append(cmds, s.add(v))
		}
		for _, r := range s.client.DoMulti(ctx, cmds...) {
			if err := r.Error(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func (s *redisStore) Close() error {
	s.client.Close()
	return s.server.stop()
}

func dialUnix(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	return d.DialContext(ctx, "unix", path)
}
