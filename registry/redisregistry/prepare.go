package redisregistry

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

const minMajor = 7 // EVALSHA_RO, and channels that lie in a slot

// prepare checks the server and the format of the namespace.
func (s *store) prepare(ctx context.Context) error {
	ctx, cancel := s.patience(ctx)
	defer cancel()
	info, err := s.info(ctx)
	if err != nil {
		return err
	}
	name, text := "Redis", info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		name, text = "Valkey", v
	}
	if major, err := strconv.Atoi(strings.SplitN(text, ".", 2)[0]); err == nil && major < minMajor {
		return fmt.Errorf("redis registry: the server is %s %s; expected %d.0 or newer: %w", name, text, minMajor, fault.Invalid)
	}
	if up, err := strconv.Atoi(info["uptime_in_seconds"]); err == nil && up <= int(grace/time.Second)+1 {
		s.young = time.Now().Add(grace)
	}
	if p := info["maxmemory_policy"]; p != "" && p != "noeviction" && info["maxmemory"] != "0" {
		return fmt.Errorf("redis registry: the server's maxmemory-policy is %s, with a limit of %s bytes, so a full memory may evict owners and sessions; set it to noeviction, or use another server: %w", p, info["maxmemory"], fault.Invalid)
	}
	settings, _ := s.client.Do(ctx, s.client.B().ConfigGet().Parameter("appendfsync").Build()).AsStrMap() // hosted servers forbid CONFIG
	s.assess(info, settings["appendfsync"])
	return s.checkFormat(ctx)
}

// info is the answer to INFO; empty if the server forbids it.
func (s *store) info(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	text, err := s.client.Do(ctx, s.client.B().Info().Build()).ToString()
	if err != nil {
		if err = classify("INFO", err, fault.Unavailable); strings.Contains(err.Error(), "NOPERM") {
			return out, nil
		}
		return nil, err
	}
	for _, line := range strings.Split(text, "\r\n") {
		if key, value, ok := strings.Cut(line, ":"); ok {
			out[key] = value
		}
	}
	return out, nil
}

// assess logs settings that may lose acknowledged transactions. fsync is appendfsync; "": it is not known.
func (s *store) assess(info map[string]string, fsync string) {
	if p := info["maxmemory_policy"]; p != "" && p != "noeviction" {
		s.log.Warn("with a limit of memory Redis would evict keys, sessions and owners among them; set maxmemory-policy to noeviction before there is one", "maxmemory_policy", p)
	}
	switch {
	case info["aof_enabled"] == "0":
		s.log.Warn("Redis keeps no append-only file: a crash of the server loses what is newer than its last snapshot; set appendonly to yes")
	case fsync == "no":
		s.log.Warn("Redis leaves it to the system when its append-only file reaches the disk: a power loss may lose half a minute; set appendfsync to everysec or always", "appendfsync", fsync)
	case fsync == "everysec":
		s.log.Info("a power loss at the Redis server may lose its last second; appendfsync always loses nothing, and is slower", "appendfsync", fsync)
	}
	if n, _ := strconv.Atoi(info["connected_slaves"]); n > 0 {
		s.log.Info("Redis replicates asynchronously: a failover may lose acknowledged transactions; fences still hold, as versions carry a nonce", "replicas", n)
	}
}

// checkFormat writes the format of a new namespace, and refuses another format.
func (s *store) checkFormat(ctx context.Context) error {
	b := s.client.B
	if err := s.client.Do(ctx, b().Hsetnx().Key(s.names.meta).Field("format").Value(format).Build()).Error(); err != nil {
		return classify("reading the format", err, fault.Unavailable)
	}
	have, err := s.client.Do(ctx, b().Hget().Key(s.names.meta).Field("format").Build()).ToString()
	if err != nil {
		return classify("reading the format", err, fault.Unavailable)
	}
	if have != format {
		return fmt.Errorf("redis registry: %s holds format %q; this program reads %s: %w", s.names.meta, have, format, fault.Newer)
	}
	return nil
}
