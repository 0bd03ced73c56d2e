package backends_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/testlog"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/internal/testserver"
)

// An operator gives the storage topic more partitions with Kafka's own tools. They stay empty, and the topic
// grows, is read and is deleted as if there were none.
func TestPartitionsThatAnOperatorAddsInKafkaChangeNothing(t *testing.T) {
	t.Parallel()
	kafka, err := url.Parse(testserver.URL(t, "kafka"))
	if err != nil {
		t.Fatal(err)
	}
	unique := fmt.Sprintf("parts-%08x", rand.Uint32())
	kafka.RawQuery = url.Values{"prefix": {unique + "."}}.Encode()
	var warnings testlog.Buffer
	open := func() *ringfence.Client {
		rf, err := ringfence.Open(t.Context(), ringfence.Config{
			Log: kafka.String(), Registry: testserver.URL(t, "postgres"), Namespace: unique, Backends: backends.All(), Logger: warnings.From(slog.LevelWarn),
		})
		if err != nil {
			t.Fatal(err)
		}
		return rf
	}
	rf := open()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const keys, each = 9, 6
	sent := 0
	defer func(rf *ringfence.Client) { must(rf.Close()) }(rf)
	produce := func() {
		t.Helper()
		for range each {
			for k := range keys {
				_, err := rf.Produce(t.Context(), "a", ringfence.Message{Key: fmt.Append(nil, k), Value: fmt.Append(nil, sent)})
				must(err)
			}
			sent++
		}
	}
	must(rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 2}))
	produce()
	info, err := rf.Admin().DescribeTopic(t.Context(), "a")
	must(err)
	addPartitions(t, kafka.Host, unique+"."+info.Storage[0].Name, 5)
	produce()
	rf = open() // which sees them
	defer func() { must(rf.Close()) }()
	produce()
	_, err = rf.Admin().AlterTopic(t.Context(), "a", api.Retention{Bytes: 1 << 30}, nil)
	must(err)
	_, err = rf.Admin().AddStorage(t.Context(), "a", 3)
	must(err)
	_, err = rf.Admin().SwitchProduce(t.Context(), "a")
	must(err)
	produce()

	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var mu sync.Mutex
	next, left := map[string]int{}, keys*sent
	must(rf.Consume(ctx, "a", "g", func(_ context.Context, m *ringfence.Message) error {
		mu.Lock()
		defer mu.Unlock()
		n, err := strconv.Atoi(string(m.Value))
		if err != nil || n != next[string(m.Key)] {
			t.Errorf("of key %s came %s, expected %d", m.Key, m.Value, next[string(m.Key)])
		}
		if next[string(m.Key)]++; left == 1 {
			stop()
		}
		left--
		return nil
	}, nil))
	if left != 0 {
		t.Errorf("%d records did not come", left)
	}
	for line := range strings.Lines(warnings.String()) {
		if !strings.Contains(line, "an append has to be repeated") { // that is of a leader that moves, which brokers do when they like
			t.Errorf("it warned: %s", line)
		}
	}
	must(rf.Admin().DeleteTopic(t.Context(), "a", &admin.DeleteTopicOptions{Force: true}))
}

func addPartitions(t *testing.T, broker, topic string, partitions int32) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	one := kmsg.NewCreatePartitionsRequestTopic()
	one.Topic, one.Count = topic, partitions
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Topics, req.TimeoutMillis = append(req.Topics, one), 10_000
	resp, err := req.RequestWith(t.Context(), c)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}
