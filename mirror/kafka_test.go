package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/mirror"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// Kafka marks a seal by a record. A cut-over that was killed after it has sealed the target finds the
// marks in partitions that are empty, and goes on.
func TestACutOverToKafkaCanBeRepeated(t *testing.T) {
	u, err := url.Parse(testserver.URL(t, "kafka"))
	must(t, err)
	k, err := kafkalog.Open(t.Context(), kafkalog.Config{Brokers: strings.Split(u.Host, ","), Prefix: fmt.Sprintf("mirror-%x.", rand.Uint32())})
	must(t, err)
	t.Cleanup(func() {
		all, _ := k.Topics(context.Background()) // of this prefix
		for _, st := range all {
			_ = k.DeleteTopic(context.Background(), st.Name)
		}
		_ = k.Close()
	})
	reg := memregistry.NewStore().Open()
	from := mirror.Side{Log: memlog.New(), Registry: memregistry.New()}
	to := mirror.Side{Log: k, Registry: reg.Registry}
	c := topic.NewCatalog(from.Log, from.Registry, "")
	must(t, c.Create(t.Context(), name, topic.Config{Partitions: 2}))
	tp, err := c.Open(t.Context(), name)
	must(t, err)
	// one key only: the other partition of storage topic 0 stays empty
	for range 5 {
		_, err := tp.Produce(t.Context(), []byte("k"), topic.AnyPartition, []commitlog.Record{{Key: []byte("k")}}, nil)
		must(t, err)
	}
	_, err = c.AddStorage(t.Context(), name, 2)
	must(t, err)
	_, err = c.Switch(t.Context(), name)
	must(t, err)
	run := func() error {
		m, err := mirror.New(mirror.Config{From: from, To: to, Topic: name})
		if err != nil {
			return err
		}
		_, err = m.CutOver(t.Context())
		return err
	}
	down := errors.New("killed here")
	reg.OnApply(func(keys []string) error {
		for _, k := range keys {
			if strings.HasSuffix(k, "/cutover") {
				return down
			}
		}
		return nil
	})
	if err := run(); !errors.Is(err, down) {
		t.Fatalf("the cut-over that is killed: %v", err)
	}
	reg.OnApply(nil)
	if err := run(); err != nil {
		t.Errorf("again: %v", err)
	}
}
