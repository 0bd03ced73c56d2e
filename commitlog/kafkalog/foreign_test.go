package kafkalog_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
)

func TestMain(m *testing.M) {
	// A random history takes a second here, and tests wait for servers rather than for a core.
	if err := errors.Join(flag.Set("rapid.checks", "20"), flag.Set("test.parallel", "4")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// fresh is a log of its own with one topic, "t".
func fresh(t *testing.T, c commitlog.TopicConfig) (kafkalog.Config, *commitlog.Log, *commitlog.Topic) {
	t.Helper()
	cfg := config(t)
	l := open(t, cfg)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	c.Name = "t"
	if err := l.CreateTopic(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return cfg, l, topic(t, l)
}

func topic(t *testing.T, l *commitlog.Log) *commitlog.Topic {
	t.Helper()
	topic, err := l.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

func add(t *testing.T, topic *commitlog.Topic, recs ...commitlog.Record) int64 {
	t.Helper()
	first, err := topic.Append(t.Context(), 0, recs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

func kcat(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "kcat", args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kcat %v: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

func TestKcatReadsWhatIsAppended(t *testing.T) {
	t.Parallel()
	cfg, _, topic := fresh(t, commitlog.TopicConfig{Partitions: 1})
	add(t, topic,
		commitlog.Record{Timestamp: 1000, Key: []byte("key"), Value: []byte("value"), Headers: []commitlog.Header{{Name: "a", Value: []byte("1")}, {Name: "a", Value: []byte("2")}}},
		commitlog.Record{Timestamp: 1001},
		commitlog.Record{Timestamp: 1002, Key: []byte{}, Value: []byte{}})
	if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Timestamp: 1003, Value: []byte("of a producer")}}, &commitlog.AppendOptions{Producer: commitlog.Producer{ID: 1 << 60}}); err != nil {
		t.Fatal(err)
	}
	got := kcat(t, "", "-b", cfg.Brokers[0], "-C", "-t", cfg.Prefix+"t", "-e", "-q", "-f", `%o %T %K:%k %S:%s [%h]\n`)
	if want := "0 1000 3:key 5:value [a=1,a=2]\n1 1001 -1: -1: []\n2 1002 0: 0: []\n3 1003 -1: 13:of a producer []\n"; got != want {
		t.Errorf("kcat reads\n%s; want\n%s", got, want)
	}
}

func TestWhatKcatWritesIsRead(t *testing.T) {
	t.Parallel()
	cfg, _, topic := fresh(t, commitlog.TopicConfig{Partitions: 1})
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		kcat(t, "k:"+codec+"\n:\n", "-b", cfg.Brokers[0], "-P", "-t", cfg.Prefix+"t", "-p", "0", "-K:", "-Z", "-z", codec, "-H", "from=kcat")
	}
	b, err := topic.Bounds(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	r := topic.NewReader(0, b.First, nil)
	var got []string
	for r.Offset() < b.Next {
		recs, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range recs {
			if len(rec.Headers) != 1 || rec.Headers[0].Name != "from" || string(rec.Headers[0].Value) != "kcat" || time.Since(time.UnixMilli(rec.Timestamp)).Abs() > time.Minute {
				t.Errorf("%+v", rec)
			}
			if rec.Value == nil {
				got = append(got, fmt.Sprint(rec.Key == nil))
			} else {
				got = append(got, string(rec.Key)+"="+string(rec.Value))
			}
		}
	}
	if want := "[k=none true k=gzip true k=snappy true k=lz4 true k=zstd true]"; fmt.Sprint(got) != want {
		t.Errorf("records %v; want %s", got, want)
	}
}

// What a foreign transaction aborted is a gap, as is Kafka's own record of its end.
func TestAbortedTransactionsAreGaps(t *testing.T) {
	t.Parallel()
	cfg, _, topic := fresh(t, commitlog.TopicConfig{Partitions: 1})
	client, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...), kgo.TransactionalID(cfg.Prefix), kgo.DefaultProduceTopic(cfg.Prefix+"t"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := client.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
		add(t, topic, commitlog.Record{Value: fmt.Appendf(nil, "ours beside %d", i)})
		if err := client.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	last := add(t, topic, commitlog.Record{Value: []byte("end")})
	r := topic.NewReader(0, 0, nil)
	var got []string
	for r.Offset() <= last {
		recs, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range recs {
			got = append(got, string(rec.Value))
		}
	}
	if want := "0,ours beside 0,ours beside 1,2,ours beside 2,end"; strings.Join(got, ",") != want {
		t.Errorf("records %q; want %q", got, want)
	}
}

// setLimit does what the second step of a seal does.
func setLimit(t *testing.T, cfg kafkalog.Config, value string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Op, c.Value = "max.message.bytes", kmsg.IncrementalAlterConfigOpSet, &value
	r.ResourceType, r.ResourceName, r.Configs = kmsg.ConfigResourceTypeTopic, cfg.Prefix+"t", append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(t.Context(), client)
	if err != nil || resp.Resources[0].ErrorCode != 0 {
		t.Fatalf("%v, %+v", err, resp)
	}
}

// Whoever began the seal died behind its second step: anybody finishes it.
func TestASealWhoseSealerDiedIsFinishedByWhoeverLooks(t *testing.T) {
	t.Parallel()
	cfg, _, topic := fresh(t, commitlog.TopicConfig{Partitions: 2})
	add(t, topic, commitlog.Record{Value: []byte("x")})
	setLimit(t, cfg, "0")
	b, err := topic.Bounds(t.Context(), 0)
	for deadline := time.Now().Add(30 * time.Second); err == nil && !b.Sealed; { // brokers hear of a setting a little later
		if time.Now().After(deadline) {
			t.Fatalf("bounds %+v; want a sealed partition", b)
		}
		b, err = topic.Bounds(t.Context(), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("late")}}, nil); !errors.Is(err, commitlog.ErrSealed) {
		t.Errorf("append: %v", err)
	}
	ends, err := topic.Seal(t.Context())
	if err != nil || ends[0] != b.Next {
		t.Errorf("ends %v, %v; bounds %+v", ends, err, b)
	}
}

// A batch may be too large for a topic that others made: it is split where it can be, and refused
// where not, and neither is a seal.
func TestATopicWithSmallBatchesTakesThemAndIsNotSealed(t *testing.T) {
	t.Parallel()
	cfg, _, topic := fresh(t, commitlog.TopicConfig{Partitions: 1})
	setLimit(t, cfg, "3000")
	var before int64 // that the broker took before it heard of the setting
	for deadline := time.Now().Add(30 * time.Second); ; before++ {
		_, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: make([]byte, 4000)}}, nil)
		if errors.Is(err, commitlog.ErrInvalid) {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("a record that is too large: %v", err)
		}
	}
	const n = 50
	errs := make(chan error, 2*n)
	for i := range n {
		topic.AppendAsync(t.Context(), 0, []commitlog.Record{{Value: make([]byte, 500)}}, nil, func(_ int64, err error) { errs <- err })
		topic.AppendAsync(t.Context(), 0, []commitlog.Record{{Value: make([]byte, 500)}}, &commitlog.AppendOptions{Producer: commitlog.Producer{ID: 3, Sequence: int64(i)}},
			func(_ int64, err error) { errs <- err })
	}
	for range 2 * n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if b, err := topic.Bounds(t.Context(), 0); err != nil || b.Next != before+2*n || b.Sealed {
		t.Errorf("bounds %+v, %v", b, err)
	}
}

func TestLoginAndTLS(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"kafka_sasl", "kafka_tls"} {
		for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
			t.Run(server+"/"+mechanism, func(t *testing.T) {
				t.Parallel()
				u, err := url.Parse(testserver.URL(t, server))
				if err != nil {
					t.Fatal(err)
				}
				q := u.Query()
				q.Set("sasl", mechanism)
				u.RawQuery = q.Encode()
				l, err := kafkalog.OpenURL(t.Context(), u, driver.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				u.User = url.UserPassword("alice", "hunter2")
				_, err = kafkalog.OpenURL(t.Context(), u, driver.Options{})
				if !errors.Is(err, commitlog.ErrUnavailable) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("with a wrong password: %v", err)
				}
			})
		}
	}
}

// The copy of a checkpoint is what Kafka's own tools find.
func TestMirroredCheckpointsAreOffsetsOfAKafkaGroup(t *testing.T) {
	t.Parallel()
	cfg, l, topic := fresh(t, commitlog.TopicConfig{Partitions: 1})
	for i := range 5 {
		add(t, topic, commitlog.Record{Value: fmt.Append(nil, i)})
	}
	if !l.PublishesOffsets() {
		t.Fatal("the log publishes no offsets")
	}
	if err := l.PublishOffsets(t.Context(), "g", []commitlog.PublishedOffset{{Topic: "t", Partition: 0, Next: 3}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...), kgo.ConsumerGroup(cfg.Prefix+"g"), kgo.ConsumeTopics(cfg.Prefix+"t"), kgo.DisableAutoCommit())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for len(got) < 2 && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	if fmt.Sprint(got) != "[3 4]" {
		t.Errorf("a consumer of the group gets %q; want those from the checkpoint on", got)
	}
	err = l.PublishOffsets(t.Context(), "g", []commitlog.PublishedOffset{{Topic: "t", Partition: 0, Next: 4}})
	if !errors.Is(err, fault.Conflict) {
		t.Errorf("while Kafka's own consumers are in the group: %v", err)
	}
	client.Close()
	if err := l.PublishOffsets(t.Context(), "g", []commitlog.PublishedOffset{{Topic: "missing", Next: 4}}); !errors.Is(err, commitlog.ErrNotFound) {
		t.Errorf("for a topic that is missing: %v", err)
	}
}
