package peer

import (
	"context"
	"os/exec"
	"path/filepath"

	"github.com/redis/rueidis"

	"github.com/ringfence/ringfence/internal/script"
)

const redisKey = "bench"

// redisStore is one stream of a redis-server of its own.
type redisStore struct{ client rueidis.Client }

func openRedis(ctx context.Context, s *script.Script, o Options) Store {
	// No snapshots and no rewriting of the append-only file: the log is what is measured.
	socket := filepath.Join(o.Dir, "redis.sock")
	option := must(rueidis.ParseURL("unix://" + socket))
	option.DisableCache, option.ForceSingleClient = true, true
	var client rueidis.Client
	startProcess(ctx, s, filepath.Join(o.Dir, "redis.log"), func(*exec.Cmd) {}, func() (err error) {
		client, err = rueidis.NewClient(option)
		return err
	}, "redis-server", "--port", "0", "--unixsocket", socket, "--dir", o.Dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always",
		"--auto-aof-rewrite-percentage", "0", "--daemonize", "no")
	s.Later(func() error { client.Close(); return nil })
	return &redisStore{client}
}

// Appender adds one entry with one command, several with one pipeline.
func (s *redisStore) Appender() Append {
	var cmds []rueidis.Completed
	return func(ctx context.Context, values [][]byte) {
		cmds = cmds[:0]
		for _, v := range values {
			cmds = append(cmds, s.client.B().Xadd().Key(redisKey).Id("*").FieldValue().FieldValue("v", rueidis.BinaryString(v)).Build())
		}
		if len(cmds) == 1 {
			check(s.client.Do(ctx, cmds[0]).Error())
			return
		}
		for _, r := range s.client.DoMulti(ctx, cmds...) {
			check(r.Error())
		}
	}
}
