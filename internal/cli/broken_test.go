package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	logdriver "github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/fileregistry"
)

// Stores that break a promise now and then, for the program "broken-ringfence": they are the file
// stores with one fault in between, so that real processes can share them.

// brokenBackends are they: loses:///dir instead of file:///dir, and so on.
func brokenBackends() []ringfence.Backend {
	logs := map[string]func(*brokenTopic){
		"loses":    func(t *brokenTopic) { t.read = losesSome },
		"hides":    func(t *brokenTopic) { t.read = hidesOne },
		"doubles":  func(t *brokenTopic) { t.append = storesSomeTwice },
		"reorders": func(t *brokenTopic) { t.append = swapsSome(t) },
		"changes":  func(t *brokenTopic) { t.read = changesSome },
		"denies":   func(t *brokenTopic) { t.append = deniesSome },
	}
	registries := map[string]func(*brokenRegistry){
		"unfenced": func(r *brokenRegistry) { r.apply = withoutFence },
		"skips":    func(r *brokenRegistry) { r.list = ahead },
		"forgets":  func(r *brokenRegistry) { r.list = behind },
	}
	var all []ringfence.Backend
	for scheme, breakIt := range logs {
		all = append(all, ringfence.Backend{Scheme: scheme, OpenLog: func(ctx context.Context, u *url.URL, o logdriver.Options) (*commitlog.Log, error) {
			l, err := filelog.Open(ctx, filelog.Config{Dir: u.Path, Options: o})
			return commitlog.New(brokenLog{l, breakIt}), err
		}})
	}
	for scheme, breakIt := range registries {
		all = append(all, ringfence.Backend{Scheme: scheme, OpenRegistry: func(ctx context.Context, u *url.URL, o registrydriver.Options) (*registry.Registry, error) {
			r, err := fileregistry.Open(ctx, fileregistry.Config{Dir: u.Path, Options: o})
			broken := &brokenRegistry{Registry: r}
			breakIt(broken)
			return registry.New(broken), err
		}})
	}
	return all
}

type brokenLog struct {
	*commitlog.Log
	breakIt func(*brokenTopic)
}

func (l brokenLog) OpenTopic(ctx context.Context, name string) (logdriver.Topic, error) {
	t, err := l.Topic(ctx, name)
	if err != nil {
		return nil, err
	}
	b := &brokenTopic{Topic: t}
	// A shard that can't read what it has written delivers nothing: its run would last minutes.
	if !strings.Contains(name, ".retry..") && !strings.Contains(name, ".dead..") && !strings.Contains(name, ".decided..") {
		l.breakIt(b)
	}
	return b, nil
}

// brokenTopic replaces some methods of a topic.
type brokenTopic struct {
	*commitlog.Topic
	read   func([]logdriver.Record) []logdriver.Record
	append func(n int, req *logdriver.AppendRequest, done func(int64, error), sound appender)

	mu sync.Mutex
	n  int
}

// appender appends as a sound log does.
type appender func(*logdriver.AppendRequest, func(int64, error))

func (t *brokenTopic) Append(ctx context.Context, req *logdriver.AppendRequest, done func(int64, error)) {
	sound := func(req *logdriver.AppendRequest, done func(int64, error)) {
		t.AppendAsync(ctx, req.Partition, req.Records, &commitlog.AppendOptions{Producer: req.Producer}, done)
	}
	if t.append == nil {
		sound(req, done)
		return
	}
	t.mu.Lock()
	t.n++
	n := t.n
	t.mu.Unlock()
	copied := *req
	copied.Records = commitlog.CloneRecords(req.Records)
	t.append(n, &copied, done, sound)
}

func (t *brokenTopic) Read(ctx context.Context, req logdriver.ReadRequest, dst []logdriver.Record) ([]logdriver.Record, int64, error) {
	recs, next, err := t.Topic.Read(ctx, req.Partition, req.Offset, dst, &commitlog.ReadOptions{MaxBytes: req.MaxBytes, Buf: req.Buf})
	if t.read != nil {
		recs = append(recs[:len(dst)], t.read(recs[len(dst):])...)
	}
	return recs, next, err
}

// losesSome hides one record of a hundred.
func losesSome(recs []logdriver.Record) (rest []logdriver.Record) {
	for _, r := range recs {
		if r.Offset%100 != 50 {
			rest = append(rest, r)
		}
	}
	return rest
}

// hidesOne hides the hundredth record of a partition.
func hidesOne(recs []logdriver.Record) []logdriver.Record {
	return slices.DeleteFunc(recs, func(r logdriver.Record) bool { return r.Offset == 100 })
}

// changesSome gives one record of a hundred another value.
func changesSome(recs []logdriver.Record) (rest []logdriver.Record) {
	for _, r := range recs {
		if r.Offset%100 == 50 {
			r.Value = append(bytes.Clone(r.Value), '!')
		}
		rest = append(rest, r)
	}
	return rest
}

// storesSomeTwice appends one batch of fifty once more, unasked.
func storesSomeTwice(n int, req *logdriver.AppendRequest, done func(int64, error), sound appender) {
	again := logdriver.AppendRequest{Partition: req.Partition, Records: commitlog.CloneRecords(req.Records)}
	sound(req, done)
	if n%50 == 0 {
		sound(&again, func(int64, error) {})
	}
}

// deniesSome stores one batch of fifty, and says that it did not.
func deniesSome(n int, req *logdriver.AppendRequest, done func(int64, error), sound appender) {
	sound(req, func(first int64, err error) {
		if err == nil && n%50 == 0 {
			err = commitlog.ErrNotAppended
		}
		done(first, err)
	})
}

// swapsSome holds one batch of ten back until the next one of its key went in front of it.
func swapsSome(t *brokenTopic) func(int, *logdriver.AppendRequest, func(int64, error), appender) {
	held := map[string]func(){}
	release := func(key string) {
		t.mu.Lock()
		late := held[key]
		delete(held, key)
		t.mu.Unlock()
		if late != nil {
			late()
		}
	}
	return func(n int, req *logdriver.AppendRequest, done func(int64, error), sound appender) {
		key := string(req.Records[0].Key)
		t.mu.Lock()
		hold := n%10 == 0 && held[key] == nil
		if hold {
			held[key] = func() { sound(req, done) }
		}
		t.mu.Unlock()
		if hold {
			time.AfterFunc(50*time.Millisecond, func() { release(key) }) // if no other comes
			return
		}
		sound(req, done)
		release(key)
	}
}

// brokenRegistry replaces some methods of a registry.
type brokenRegistry struct {
	*registry.Registry
	apply func([]registrydriver.Txn) []registrydriver.Txn
	list  func(*protocol.Position)
}

func isCheckpoint(key string) bool { return strings.HasPrefix(key, "checkpoints/") }

func (r *brokenRegistry) Apply(ctx context.Context, txns []registrydriver.Txn) ([]registrydriver.Result, error) {
	if r.apply != nil {
		txns = r.apply(txns)
	}
	return r.Registry.Apply(ctx, txns)
}

// withoutFence lets any member write checkpoints.
func withoutFence(txns []registrydriver.Txn) (unchecked []registrydriver.Txn) {
	for _, t := range txns {
		if len(t.Puts) == 1 && isCheckpoint(t.Puts[0].Key) {
			t.Checks = nil
		}
		unchecked = append(unchecked, t)
	}
	return unchecked
}

// List changes the position of a checkpoint that an owner asks for. Who looks at all of a group sees
// them as they are.
func (r *brokenRegistry) List(ctx context.Context, prefix string) (registrydriver.Snapshot, error) {
	snap, err := r.Registry.List(ctx, prefix)
	if r.list == nil || strings.HasSuffix(prefix, "/") {
		return snap, err
	}
	snap.Entries = append([]registrydriver.Entry(nil), snap.Entries...)
	for i, e := range snap.Entries {
		var c protocol.Checkpoint
		if !isCheckpoint(e.Key) || json.Unmarshal(e.Value, &c) != nil {
			continue
		}
		for j := range c.Positions {
			r.list(&c.Positions[j])
		}
		raw, err := json.Marshal(c)
		if err != nil {
			return snap, err
		}
		snap.Entries[i].Value = raw
	}
	return snap, err
}

// ahead hands a checkpoint on with five records that were never handled.
func ahead(p *protocol.Position) { p.Next, p.Done = p.Next+5, nil }

// behind hands a checkpoint on that is older than the last.
func behind(p *protocol.Position) { p.Next, p.Done = max(0, p.Next-5), nil }
