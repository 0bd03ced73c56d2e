package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// lazily opens a directory at level os, and at level sync for who looks what a loss of power would leave.
func lazily(t *testing.T, dir string, backends ...ringfence.Backend) (lazy, strict *ringfence.Client) {
	t.Helper()
	cfg := ringfence.Config{Dir: dir, Backends: backends}
	for _, b := range backends {
		cfg.Log, cfg.Registry = "file://"+dir, b.Scheme+":"
	}
	for level, rf := range map[ringfence.Durability]**ringfence.Client{ringfence.OS: &lazy, ringfence.Sync: &strict} {
		var err error
		cfg.Durability = level
		if *rf, err = ringfence.Open(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { must(t, (*rf).Close()) })
	}
	must(t, lazy.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 1}))
	_, err := strict.Admin().DescribeTopic(t.Context(), "orders") // whoever opens it syncs what is there
	must(t, err)
	return lazy, strict
}

// kept waits until a group has a checkpoint at or above an offset, and fails when it lies beyond what is on
// stable storage: the records there could be lost without it, and those that come in their place would never be handled.
func kept(t *testing.T, strict *ringfence.Client, group string, offset int64) {
	t.Helper()
	eventually(t, "a checkpoint", func() bool {
		g, err := strict.Admin().DescribeGroup(t.Context(), group)
		if err != nil || len(g.Units) == 0 || g.Units[0].Positions[0].Checkpoint < offset {
			return false
		}
		if at := g.Units[0].Positions[0]; at.Checkpoint > at.Next {
			info, err := strict.Admin().DescribeTopic(t.Context(), "orders")
			must(t, err)
			if end := info.Storage[0].Partitions[0].Next; at.Checkpoint > end {
				t.Fatalf("the checkpoint is at %d, and what is durable ends at %d", at.Checkpoint, end)
			}
		}
		return true
	})
}

func TestACheckpointIsNotStoredBeforeItsRecordsAreDurable(t *testing.T) {
	t.Parallel()
	lazy, strict := lazily(t, t.TempDir())
	got := newRecorder()
	c := consume(t, lazy, "orders", "g", got.handle, ringfence.ConsumeOptions{CommitInterval: time.Millisecond})
	for i := range 20 {
		produce(t, lazy, "orders", i, 1, 1)
		kept(t, strict, "g", int64(i)+1)
	}
	produce(t, lazy, "orders", 20, 5, 1)
	got.waitFor(t, 25)
	c.leave(t)
	kept(t, strict, "g", 25) // by the last checkpoint: nothing is repeated
}

// checked is a registry that has somebody look before a checkpoint is stored.
type checked struct {
	*registry.Registry
	look func()
}

func (c *checked) Apply(ctx context.Context, txns []registry.Txn) ([]registry.Result, error) {
	if txns[0].Quiet && strings.Contains(txns[0].Puts[0].Key, "checkpoints") {
		c.look()
	}
	return c.Registry.Apply(ctx, txns)
}

func TestAStartAtTheEndIsNotStoredBeforeThatIsDurable(t *testing.T) {
	t.Parallel()
	reg := &checked{Registry: memregistry.New()}
	dir := t.TempDir()
	lazy, strict := lazily(t, dir, ringfence.Backend{Scheme: "checked", OpenRegistry: func(context.Context, *url.URL, registrydriver.Options) (*registry.Registry, error) {
		return registry.New(reg), nil
	}})
	info, err := strict.Admin().DescribeTopic(t.Context(), "orders")
	must(t, err)
	log, err := filelog.Open(t.Context(), filelog.Config{Dir: dir})
	must(t, err)
	defer log.Close()
	disk, err := log.Topic(t.Context(), info.Storage[0].Name)
	must(t, err)
	ends := make(chan int64, 100)
	reg.look = func() {
		if b, err := disk.Bounds(t.Context(), 0); err == nil {
			ends <- b.Next
		}
	}
	// Records become durable by themselves some time later: of many starts that come at once, one at least is
	// early enough to show what it waits for.
	for i := range 12 {
		produce(t, lazy, "orders", i*3, 3, 1)
		c := consume(t, lazy, "orders", fmt.Sprint("g", i), newRecorder().handle, ringfence.ConsumeOptions{From: ringfence.Latest})
		if end := <-ends; end != int64(i*3+3) {
			t.Fatalf("a group begins behind %d records, of which %d are durable", i*3+3, end)
		}
		c.leave(t)
		for len(ends) > 0 {
			<-ends
		}
	}
}

// A record that was parked lies behind the progress of its topic, so it has to last as long as that.
func TestAParkedRecordIsDurableBeforeTheProgressBehindIt(t *testing.T) {
	t.Parallel()
	lazy, strict := lazily(t, t.TempDir())
	d, err := lazy.Admin().CreateSubscription(t.Context(), "s", admin.SubscriptionConfig{Topic: "orders", Hold: -1, Retry: admin.Retry{Initial: time.Hour, Max: time.Hour}})
	must(t, err)
	stop := subscribe(t, lazy, "s", func(context.Context, *ringfence.Message) error { return errors.New("not now") })
	for i := range 5 {
		_, err := lazy.Produce(t.Context(), "orders", ringfence.Message{Key: []byte{byte(i)}})
		must(t, err)
		kept(t, strict, d.Group(), int64(i)+1)
		b, err := strict.Admin().CountBacklog(t.Context(), "s")
		must(t, err)
		if b.Parked.Records < i+1 {
			t.Fatalf("the progress of record %d is durable, and of the parked records only %d", i, b.Parked.Records)
		}
	}
	stop()
}

// A dead letter's copy outlives the record that it is of, so it has to last as long as the progress behind that.
func TestACopyOfADeadLetterIsDurableBeforeTheProgressBehindIt(t *testing.T) {
	t.Parallel()
	lazy, strict := lazily(t, t.TempDir())
	d, err := lazy.Admin().CreateSubscription(t.Context(), "s", admin.SubscriptionConfig{Topic: "orders"})
	must(t, err)
	stop := subscribe(t, lazy, "s", func(context.Context, *ringfence.Message) error { return ringfence.Permanent(errors.New("never")) })
	for i := range 5 {
		_, err := lazy.Produce(t.Context(), "orders", ringfence.Message{Key: []byte{byte(i)}})
		must(t, err)
		kept(t, strict, d.Group(), int64(i)+1)
		info, err := strict.Admin().DescribeTopic(t.Context(), d.Set().DeadTopic)
		must(t, err)
		if end := info.Storage[0].Partitions[0].Next; end < int64(i)+1 {
			t.Fatalf("the progress of dead letter %d is durable, and of their copies only %d", i, end)
		}
	}
	stop()
}
