package kafkalog_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/internal/testserver"
)

// settingsOf are the settings of a topic, as any client of Kafka sees them.
func settingsOf(t *testing.T, c kafkalog.Config, topic string) map[string]string {
	t.Helper()
	cl := stranger(t, c)
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, c.Prefix+topic
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, r)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-again.C { // until that broker knows the topic
		resp, err := req.RequestWith(t.Context(), cl)
		if err == nil && resp.Resources[0].ErrorCode == 0 {
			m := map[string]string{}
			for _, s := range resp.Resources[0].Configs {
				if s.Value != nil {
					m[s.Name] = *s.Value
				}
			}
			return m
		}
		if time.Now().After(deadline) {
			t.Fatalf("the settings of %s: waited in vain: %v, %+v", r.ResourceName, err, resp)
		}
	}
}

func stranger(t *testing.T, c kafkalog.Config) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// flushNever is Kafka's default of flush.messages.
const flushNever = "9223372036854775807"

// An ack at level sync survives the loss of a broker: a second one has the record, or the disk.
func TestAnAckSurvivesTheLossOfABroker(t *testing.T) {
	t.Parallel()
	cluster := onCluster(t)
	for replicas, want := range map[int]map[string]string{
		0: {"flush.messages": flushNever, "min.insync.replicas": "2"}, // the cluster's default: three
		3: {"flush.messages": flushNever, "min.insync.replicas": "2"},
		2: {"flush.messages": flushNever, "min.insync.replicas": "2"},
		1: {"flush.messages": "1"},
	} {
		c := cluster
		c.Replication = replicas
		expectSettings(t, c, fmt.Sprint("t", replicas), want)
		c.Durability = driver.OS
		expectSettings(t, c, fmt.Sprint("os", replicas), map[string]string{"flush.messages": flushNever})
	}
}

func TestAnAckOfASingleBrokerSurvivesAPowerLoss(t *testing.T) {
	t.Parallel()
	c := config(t)
	expectSettings(t, c, "t", map[string]string{"flush.messages": "1"})
	c.Durability = driver.OS
	expectSettings(t, c, "os", map[string]string{"flush.messages": flushNever})
}

// expectSettings makes a topic, which has to take appends.
func expectSettings(t *testing.T, c kafkalog.Config, name string, want map[string]string) {
	t.Helper()
	l := open(t, c)
	defer l.Close()
	if err := l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: name, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	have := settingsOf(t, c, name)
	for setting, value := range want {
		if have[setting] != value {
			t.Errorf("%s with %d replicas at level %q: %s=%s; expected %s", name, c.Replication, c.Durability, setting, have[setting], value)
		}
	}
	if _, err := topicOf(t, l, name).Append(t.Context(), 0, []commitlog.Record{{Value: []byte("v")}}, nil); err != nil {
		t.Errorf("%s with %d replicas at level %q: %v", name, c.Replication, c.Durability, err)
	}
}

func TestATopicWhoseAcksWouldPromiseTooLittleIsRefused(t *testing.T) {
	t.Parallel()
	c := onCluster(t)
	weak := kmsg.NewCreateTopicsRequestTopic()
	weak.Topic, weak.NumPartitions, weak.ReplicationFactor = c.Prefix+"weak", 1, 3
	least := kmsg.NewCreateTopicsRequestTopicConfig()
	least.Name, least.Value = "min.insync.replicas", kmsg.StringPtr("1")
	weak.Configs = append(weak.Configs, least)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = 30_000, append(req.Topics, weak)
	if resp, err := req.RequestWith(t.Context(), stranger(t, c)); err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatal(err, resp)
	}
	for level, allowed := range map[driver.Durability]bool{driver.Sync: false, driver.OS: true} {
		c.Durability = level
		l := open(t, c)
		topic := topicOf(t, l, "weak")
		if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("v")}}, nil); allowed != (err == nil) || !allowed && !errors.Is(err, commitlog.ErrInvalid) {
			t.Errorf("at level %s: %v", level, err)
		}
		if _, err := topic.Bounds(t.Context(), 0); err != nil { // to read is no matter of acks
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAnyMechanismAndAnyOptionOfFranzGo(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(testserver.URL(t, "kafka_sasl"))
	if err != nil {
		t.Fatal(err)
	}
	var dialed atomic.Int64
	c := kafkalog.Config{
		Brokers: []string{u.Host},
		SASL:    scram.Auth{User: "alice", Pass: "wonderland"}.AsSha256Mechanism(),
		Client: []kgo.Opt{kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
			dialed.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, host)
		})},
	}
	if err := open(t, c).Close(); err != nil {
		t.Error(err)
	}
	if dialed.Load() == 0 {
		t.Error("the dialer among the options was not used")
	}
	c.User = "alice"
	if err := c.Validate(); !errors.Is(err, commitlog.ErrInvalid) {
		t.Errorf("a mechanism and a user: %v", err)
	}
}
