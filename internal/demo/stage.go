package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	commitlogdriver "github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// stage is where the story is told: the client of the narrator, the consumers, the histories.
type stage struct {
	*Config
	screen screen
	result Result

	topic, group string
	rf           *ringfence.Client
	actors       map[string]actor // at work, by name
	killed       []actor
	starts       map[string]int // of each name
	histories    map[string]string
	own          *os.File // the history of the producer
	writer       *history.Writer
	produced     int
	sequence     [keyCount]int

	logs   *memlog.Store      // with InProcess, unless a URL names a log
	stores *memregistry.Store // with InProcess
}

func name(i int) string { return string(rune('A' + i)) }

// openStage opens the stores, makes the topic, and starts nothing.
func openStage(ctx context.Context, c *Config) (*stage, error) {
	st := &stage{
		Config: c, screen: screen{w: c.Out, control: c.Control, began: time.Now()},
		topic: "payments", group: "billing",
		actors: make(map[string]actor), starts: make(map[string]int), histories: make(map[string]string),
		result: Result{Partitions: c.Partitions, Consumers: c.Consumers, InProcess: c.InProcess, Owners: []Owners{}, Broken: []string{}},
	}
	if !c.Fresh {
		suffix := "-demo-" + strings.ToLower(rand.Text()[:6])
		st.topic, st.group = st.topic+suffix, st.group+suffix
	}
	cfg := c.Client
	if c.InProcess {
		st.logs, st.stores = memlog.NewStore(nil), memregistry.NewStore()
		cfg = st.played(st.stores.Open().Registry)
	}
	var err error
	if st.own, err = os.OpenFile(filepath.Join(c.Dir, "history", "producer.jsonl"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	st.writer = history.NewWriter(st.own)
	if st.rf, err = ringfence.Open(ctx, cfg); err != nil {
		return nil, errors.Join(err, st.own.Close())
	}
	if err := st.rf.EnsureTopic(ctx, st.topic, ringfence.TopicConfig{Partitions: c.Partitions}); err != nil {
		return nil, errors.Join(err, st.rf.Close(), st.own.Close())
	}
	return st, nil
}

// played is the configuration of a client in a demo without processes.
func (st *stage) played(reg *registry.Registry) ringfence.Config {
	cfg := st.Client
	cfg.Registry = "played:"
	if cfg.Log == "" {
		cfg.Log = "played:"
	}
	cfg.Backends = append(slices.Clip(cfg.Backends), ringfence.Backend{
		Scheme: "played",
		OpenLog: func(context.Context, *url.URL, commitlogdriver.Options) (*commitlog.Log, error) {
			return st.logs.Open(), nil
		},
		OpenRegistry: func(context.Context, *url.URL, registrydriver.Options) (*registry.Registry, error) { return reg, nil },
	})
	return cfg
}

// start brings a consumer on stage, for the first time or again.
func (st *stage) start(ctx context.Context, who string) error {
	st.starts[who]++
	file := filepath.Join(st.Dir, "history", fmt.Sprintf("%s-%d.jsonl", who, st.starts[who]))
	st.histories[who] = file
	if st.InProcess {
		return st.startPlayer(ctx, who, file)
	}
	p, err := harness.Start(who, st.Binary, st.MemberArgs(MemberSpec{
		Name: who, Topic: st.topic, Group: st.group, History: file, TTL: sessionTTL, Work: recordWork,
	}), st.MemberEnv)
	if err != nil {
		return err
	}
	st.actors[who] = process{p}
	return nil
}

func (st *stage) startPlayer(ctx context.Context, who, path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	handle := st.stores.Open()
	rf, err := ringfence.Open(ctx, st.played(handle.Registry))
	if err != nil {
		return errors.Join(err, file.Close())
	}
	w := history.NewWriter(file)
	st.actors[who] = startPlayer(ctx, handle, harness.MemberConfig{
		Name: who, Topic: st.topic, Group: st.group, TTL: sessionTTL, Work: recordWork,
		Logger: st.Logger, Log: rf.Log(), Namespace: rf.Namespace(), Tell: func(e history.Event) { _ = w.Add(e) }, // what is missing shows as a broken promise
	}, file)
	return nil
}

// kill kills a consumer.
func (st *stage) kill(who string) error {
	a := st.actors[who]
	delete(st.actors, who)
	st.killed = append(st.killed, a)
	return a.kill()
}

// clear ends whoever is still there, and closes the stores.
func (st *stage) clear() error {
	for _, a := range st.actors { // only when the story broke off
		_ = a.thaw() // it may be frozen or gone
		_ = a.kill()
		st.killed = append(st.killed, a)
	}
	var errs []error
	for _, a := range st.killed {
		errs = append(errs, a.wait())
	}
	if !st.Fresh && !st.Keep {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		errs = append(errs, st.rf.DeleteTopic(ctx, st.topic, &ringfence.DeleteTopicOptions{Force: true}))
	}
	return errors.Join(append(errs, st.rf.Close(), st.own.Close())...)
}

// produce stores n records, of keys in turn, and tells the history which were acknowledged.
func (st *stage) produce(ctx context.Context, n int) error {
	type ack struct {
		event history.Event
		err   error
	}
	const window = 512
	acks := make(chan ack, window)
	sent, open := 0, 0
	for sent < n || open > 0 {
		if sent < n && open < window {
			i := (st.produced + sent) % keyCount
			key := fmt.Appendf(nil, "account-%03d", i)
			value := fmt.Appendf(nil, "booking %d of account %03d", st.sequence[i], i)
			st.sequence[i]++
			sent, open = sent+1, open+1
			st.rf.ProduceAsync(ctx, st.topic, ringfence.Message{Key: key, Value: value}, nil, func(at ringfence.Position, err error) {
				acks <- ack{err: err, event: history.Event{
					Kind: history.Produced, At: history.Now(), Storage: at.Storage, Partition: at.Partition, Offset: at.Offset,
					Key: history.Key(key), Value: harness.Fingerprint(key, value),
				}}
			})
			continue
		}
		a := <-acks
		open--
		if a.err != nil {
			return fmt.Errorf("produce: %w", a.err)
		}
		if err := st.writer.Add(a.event); err != nil {
			return err
		}
	}
	st.produced += n
	return nil
}

func (st *stage) info(ctx context.Context) (ringfence.GroupInfo, error) {
	g, err := st.rf.DescribeGroup(ctx, st.group)
	if errors.Is(err, ringfence.ErrNotFound) {
		return ringfence.GroupInfo{Name: st.group}, nil // nobody has joined yet
	}
	return g, err
}

// await looks at the group until something holds. A consumer that ended by itself ends it too.
func (st *stage) await(ctx context.Context, what string, holds func(ringfence.GroupInfo) bool) (ringfence.GroupInfo, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %s in vain until %s: %w", patience, what, context.DeadlineExceeded))
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		g, err := st.info(ctx)
		if err == nil && holds(g) {
			return g, nil
		}
		if err == nil {
			err = st.casualty()
		}
		if err != nil && ctx.Err() == nil {
			return g, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return g, context.Cause(ctx)
		}
	}
}

// casualty is the error of a consumer that ended though nobody asked it to.
func (st *stage) casualty() error {
	for who, a := range st.actors {
		select {
		case <-a.ended():
			return fmt.Errorf("consumer %s ended by itself: %w", who, errors.Join(a.wait(), errEndedEarly))
		default:
		}
	}
	return nil
}

var errEndedEarly = errors.New("nobody had asked it to")
