// Package peer puts Ringfence and the systems it is compared with behind one small interface:
// append values in order to one stream, and read the stream back.
//
// Each peer is set up the way its own documentation recommends for speed, with every append synced
// before it is acknowledged, and is given what it does best: in-process connections, group commit, pipelining.
package peer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/internal/script"
)

func check(err error) { script.Check(err) }

func must[T any](v T, err error) T { return script.Must(v, err) }

// Options say how a store is opened.
type Options struct {
	Dir      string // an empty folder of its own
	InFlight int    // how many goroutines will append at once
	KeepAll  bool   // the records are read back later: nothing may be dropped to bound the disk
}

// Append stores values in order as one step and returns when they are on stable storage. One goroutine uses it; values may be changed after it returned.
type Append func(ctx context.Context, values [][]byte)

// Store is an open peer. What it does is part of a script (script.Script): what goes wrong ends that.
type Store interface {
	// Appender gives one goroutine its own way to append.
	Appender() Append
}

// Scanner is a store whose reading is compared.
type Scanner interface {
	// Scan reads the first n values in order, in the fastest way the store has for that, and
	// returns how many it read and their bytes.
	Scan(ctx context.Context, n int64) (records, bytes int64)
}

// Peer is one system that can be measured.
type Peer struct {
	Name string
	// About says in a few words how it is set up.
	About string
	// Server is the program that has to be installed; "" for what is linked in.
	Server string
	// Open opens it until the script ends.
	Open func(ctx context.Context, s *script.Script, o Options) Store
}

// Available says whether the peer can be opened on this machine.
func (p Peer) Available() bool { return p.Server == "" || findServer(p.Server) != "" }

// Ringfence is the name of the first peer: the one the others are compared with.
const Ringfence = "ringfence"

// All lists every peer, Ringfence first.
func All() []Peer {
	return []Peer{
		{Name: Ringfence, About: "commitlog on filelog", Open: openRingfence},
		{Name: "nats", About: "JetStream file store, embedded, in-process connection", Open: openNATS},
		{Name: "redis", About: "Streams with an append-only file, unix socket, pipelined", Server: "redis-server", Open: openRedis},
		{Name: "pebble", About: "one key per record, its own group commit", Open: openPebble},
		{Name: "tidwall", About: "tidwall/wal behind a group committer", Open: openTidwall},
		{Name: "postgres", About: "one INSERT per append, a connection per producer up to 64", Server: "postgres", Open: openPostgres},
	}
}

// Named picks peers by name in the order of All, Ringfence always, and all when none is named.
func Named(names []string) ([]Peer, error) {
	all := All()
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, p := range all {
		known = append(known, p.Name)
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("unknown peer %q; expected some of %s", n, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(p Peer) bool { return p.Name != Ringfence && !slices.Contains(names, p.Name) }), nil
}
