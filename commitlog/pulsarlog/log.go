package pulsarlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

const (
	// configProperty of a partitioned topic has its driver.TopicConfig as JSON.
	configProperty = ownPrefix + "config"
	// readyProperty says that all steps of its creation are done.
	readyProperty = ownPrefix + "ready"
	// subscription keeps the records: Pulsar drops what every subscription has acknowledged.
	subscription = "ringfence"
	busyPause    = 50 * time.Millisecond
	busyPatience = 20 * time.Second
	madePatience = 10 * time.Second // until a topic that was made is found
	// deletePatience is how long a deletion with an unknown outcome is tried.
	deletePatience = 10 * time.Second
)

// log is a namespace of a Pulsar cluster.
type log struct {
	config Config
	client pulsar.Client
	admin  *admin
	// sendTimeout is how long an append is tried.
	sendTimeout time.Duration
	// retainEvery is how often an open topic is tended.
	retainEvery time.Duration

	mu     sync.Mutex
	topics map[string]*topic // those that have handles
	closed bool
	idle   sync.WaitGroup // of the closing of topics
}

var _ driver.Log = (*log)(nil)

func newLog(c Config, client pulsar.Client, a *admin) *log {
	return &log{config: c, client: client, admin: a, sendTimeout: defaultSendTimeout, retainEvery: retainEvery, topics: map[string]*topic{}}
}

func (l *log) usable(ctx context.Context) error {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if closed {
		return fmt.Errorf("pulsar log: %w", fault.Closed)
	}
	return ctx.Err()
}

// CreateTopic implements driver.Log. The topic and its shape appear at once; the subscription
// that keeps its records and the deduplication follow; after a crash, opening the topic finishes that.
func (l *log) CreateTopic(ctx context.Context, c driver.TopicConfig) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	if strings.Contains(c.Name, "-partition-") {
		return fmt.Errorf("topic name %q contains \"-partition-\", which Pulsar keeps for itself: %w", c.Name, fault.Invalid)
	}
	b, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("topic %q: %w: %w", c.Name, fault.Invalid, err)
	}
	err = l.admin.create(ctx, c.Name, metadata{Partitions: c.Partitions, Properties: map[string]string{configProperty: string(b)}})
	if err != nil && !errors.Is(err, fault.Conflict) {
		return err
	}
	have, ready, err := l.made(ctx, c.Name)
	if err != nil {
		return err
	}
	if err := checkShape(have, c); err != nil {
		return err
	}
	if ready {
		return nil
	}
	return l.finishCreate(ctx, c.Name)
}

func (l *log) finishCreate(ctx context.Context, name string) error {
	earliest := position{Ledger: -1, Entry: -1, Partition: -1}
	err := whileBusy(ctx, func() error {
		return l.admin.send(ctx, http.MethodPut, l.admin.topicPath(name, "/subscription/"+subscription), earliest)
	})
	if err != nil && !errors.Is(err, fault.Conflict) {
		return fmt.Errorf("the subscription that keeps the records of topic %q: %w", name, err)
	}
	// The client sends again what it got no answer for when it has to connect anew.
	err = whileBusy(ctx, func() error {
		return l.admin.send(ctx, http.MethodPost, l.admin.topicPath(name, "/deduplicationEnabled"), true)
	})
	if err != nil {
		return fmt.Errorf("deduplication of topic %q (the broker's topicLevelPoliciesEnabled must not be off): %w", name, err)
	}
	return whileBusy(ctx, func() error { return l.admin.setProperties(ctx, name, map[string]string{readyProperty: "1"}) })
}

// whileBusy repeats a step of a creation that another process takes just now. A broker that says so for long has
// another reason.
func whileBusy(ctx context.Context, step func() error) error {
	return patiently(ctx, busyPatience, func() (bool, error) {
		err := step()
		return errors.Is(err, errBusy), err
	})
}

// shape is the configuration of a topic. A partitioned topic that Ringfence has not made is
// fault.Exists: its records are not kept by the log's subscription.
func (l *log) shape(ctx context.Context, name string) (c driver.TopicConfig, ready bool, err error) {
	m, err := l.admin.metadata(ctx, name)
	if err != nil {
		return c, false, err
	}
	stored, ok := m.Properties[configProperty]
	if !ok {
		return c, false, fmt.Errorf("topic %q of %s/%s was not made by Ringfence; choose another name or namespace: %w",
			name, l.config.Tenant, l.config.Namespace, fault.Exists)
	}
	c, err = decodeConfig(name, stored)
	return c, err == nil && m.Properties[readyProperty] != "", err
}

// decodeConfig reads the configuration that is stored with a topic.
func decodeConfig(name, stored string) (c driver.TopicConfig, err error) {
	if err := json.Unmarshal([]byte(stored), &c); err != nil || c.Name != name || c.Partitions < 1 {
		return driver.TopicConfig{}, fmt.Errorf("topic %q: property %s is %.200q; expected its configuration: %w", name, configProperty, stored, fault.Corrupt)
	}
	return c, nil
}

// made is shape of a topic that exists, by what the broker says: while others make it too, it may not
// be found for a moment.
func (l *log) made(ctx context.Context, name string) (c driver.TopicConfig, ready bool, err error) {
	err = patiently(ctx, madePatience, func() (bool, error) {
		c, ready, err = l.shape(ctx, name)
		return errors.Is(err, fault.NotFound), err
	})
	return c, ready, err
}

// DeleteTopic implements driver.Log.
func (l *log) DeleteTopic(ctx context.Context, name string) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	if _, _, err := l.shape(ctx, name); err != nil {
		if errors.Is(err, fault.Exists) {
			err = fmt.Errorf("delete topic %q: there is none that Ringfence made: %w", name, fault.NotFound)
		}
		return err
	}
	l.mu.Lock()
	t := l.topics[name]
	delete(l.topics, name)
	l.mu.Unlock()
	if t != nil { // or its readers and producers would try to come back
		t.end(fmt.Errorf("topic %q was deleted: %w", name, fault.NotFound))
	}
	return l.admin.delete(ctx, name)
}

// Topics implements driver.Log.
func (l *log) Topics(ctx context.Context) ([]driver.TopicConfig, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	names, err := l.admin.topics(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]driver.TopicConfig, 0, len(names))
	for _, name := range names {
		c, _, err := l.shape(ctx, name)
		switch {
		case err == nil:
			list = append(list, c)
		case errors.Is(err, fault.Corrupt):
			l.config.Logger.Warn("a topic is left out of a list", "error", err)
		case !errors.Is(err, fault.NotFound) && !errors.Is(err, fault.Exists):
			return nil, err
		}
	}
	return list, nil
}

// OpenTopic implements driver.Log.
func (l *log) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	c, ready, err := l.shape(ctx, name)
	if errors.Is(err, fault.NotFound) || errors.Is(err, fault.Exists) {
		return nil, fmt.Errorf("open topic %q: %w (create it first)", name, fault.NotFound)
	}
	if err != nil {
		return nil, err
	}
	if !ready {
		if err := l.finishCreate(ctx, name); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("pulsar log: %w", fault.Closed)
	}
	t := l.topics[name]
	if t == nil || t.config.Partitions != c.Partitions {
		t = newTopic(l, c)
		t.open()
		l.topics[name] = t
	}
	t.handles++
	return &handle{topic: t, closed: make(chan struct{})}, nil
}

// release gives back a handle; the last one ends the topic.
func (l *log) release(t *topic) {
	l.mu.Lock()
	t.handles--
	last := t.handles == 0
	if last && l.topics[t.config.Name] == t {
		delete(l.topics, t.config.Name)
	}
	if last {
		l.idle.Add(1)
	}
	l.mu.Unlock()
	if last {
		defer l.idle.Done()
		t.end(fmt.Errorf("topic %q: %w", t.config.Name, fault.Closed))
	}
}

// Close implements driver.Log.
func (l *log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	topics := l.topics
	l.topics = map[string]*topic{}
	l.mu.Unlock()
	var ends sync.WaitGroup
	for _, t := range topics {
		ends.Go(func() { t.end(fmt.Errorf("pulsar log: %w", fault.Closed)) }) // joined below
	}
	ends.Wait()
	l.idle.Wait()
	l.client.Close()
	l.admin.close()
	return nil
}
