package kafkalog_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

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
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for _, s := range resp.Resources[0].Configs {
		if s.Value != nil {
			m[s.Name] = *s.Value
		}
	}
	return m
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

// An ack at level sync survives the loss of a broker: a second one has the record, or the disk.
func TestAnAckSurvivesTheLossOfABroker(t *testing.T) {
	t.Parallel()
	one, three := config(t), onCluster(t)
	two := three
	two.Replication = 2
	single := three
	single.Replication = 1
	for _, x := range []struct {
		name       string
		config     kafkalog.Config
		flush, min string
	}{{"a single broker", one, "1", "1"}, {"three-replicas", three, "9223372036854775807", "2"}, {"two-replicas", two, "9223372036854775807", "2"}, {"one-replica", single, "1", ""}} {
		for level, want := range map[driver.Durability]string{"": x.flush, driver.Sync: x.flush, driver.OS: "9223372036854775807"} {
			c := x.config
			c.Durability = level
			l := open(t, c)
			name := "t-" + string(level)
			if x.config.Replication > 0 {
				name += "-" + x.name
			}
			if err := l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: name, Partitions: 1}); err != nil {
				t.Fatal(err)
			}
			s := settingsOf(t, c, name)
			if s["flush.messages"] != want || level != driver.OS && x.min != "" && s["min.insync.replicas"] != x.min {
				t.Errorf("%s at level %q: flush.messages=%s, min.insync.replicas=%s; expected %s and %s", x.name, level, s["flush.messages"], s["min.insync.replicas"], want, x.min)
			}
			if _, err := topicOf(t, l, name).Append(t.Context(), 0, []commitlog.Record{{Value: []byte("v")}}, nil); err != nil {
				t.Errorf("%s at level %q: %v", x.name, level, err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
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
