package topic_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// namedLog tells the identity of its topics, as Kafka does.
type namedLog struct {
	driver.Log
	id string
}

type namedTopic struct {
	driver.Topic
	id string
}

func (l *namedLog) TopicID(context.Context, string) (string, error) { return l.id, nil }

func (l *namedLog) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	return &namedTopic{t, l.id}, err
}

func (t *namedTopic) ID() string { return t.id }

// An operator deletes a storage topic and makes it again.
func TestAStorageTopicThatIsAnotherOneIsNotOpened(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, made, found string
		partitions        int
		replaced          bool
	}{
		{"the same", "a1", "a1", 4, false},
		{"another", "a1", "b2", 4, true},
		{"one of a log that tells nothing now", "a1", "", 4, false},
		{"one that was made before identities", "", "b2", 4, false},
		{"one with fewer partitions", "", "", 2, true},
		{"one that has got more partitions", "a1", "a1", 8, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			named := &namedLog{memlog.NewStore(nil).Driver(), c.made}
			reg, log := memregistry.NewStore().Open().Registry, commitlog.New(named)
			defer func() { _, _ = reg.Close(), log.Close() }()
			catalog := topic.NewCatalog(log, reg, "")
			doc, err := catalog.Ensure(ctx, "pay", topic.Config{Partitions: 4})
			if err == nil {
				_, err = catalog.AddStorage(ctx, "pay", 2)
			}
			if err == nil && c.partitions != 4 {
				name := doc.Storage[0].Name
				err = errors.Join(log.DeleteTopic(ctx, name), log.CreateTopic(ctx, commitlog.TopicConfig{Name: name, Partitions: c.partitions}))
			}
			must(t, err)
			named.id = c.found
			tp, err := catalog.Open(ctx, "pay")
			if err == nil {
				err = tp.Close()
			}
			_, switched := catalog.Switch(ctx, "pay")
			for what, err := range map[string]error{"open": err, "switch": switched} {
				var replaced *topic.ReplacedError
				if got := errors.As(err, &replaced) && errors.Is(err, fault.Corrupt); got != c.replaced {
					t.Errorf("%s: %v; expected an error: %v", what, err, c.replaced)
				}
				if c.replaced && err != nil && !strings.Contains(err.Error(), "ringfence topic delete pay --force") {
					t.Errorf("%s: the error has no way out: %v", what, err)
				}
			}
			if doc, err := catalog.Get(ctx, "pay"); err != nil || !c.replaced && len(doc.Storage[0].Ends) != 4 {
				t.Errorf("the definition after that: %+v, %v", doc, err)
			}
			if err := catalog.Delete(ctx, "pay", ""); err != nil {
				t.Errorf("delete, the way out: %v", err)
			}
		})
	}
}
