package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// The settings of a Kafka topic that mean something here.
const (
	maxMessageBytes = "max.message.bytes" // 0: sealed
	compressionType = "compression.type"  // as the producer has it; see sealCodec
	minInSync       = "min.insync.replicas"
	flushMessages   = "flush.messages"  // 1: an ack waits for the disk
	retentionMillis = "retention.ms"    // what Kafka drops, needed or not; -1: nothing
	retentionBytes  = "retention.bytes" // of one partition
	cleanupPolicy   = "cleanup.policy"
	// What Ringfence drops. Kafka itself reads these two of topics with tiered storage only, as
	// what to keep on the broker's own disk, and then they are no more than that.
	ownMillis = "local.retention.ms"
	ownBytes  = "local.retention.bytes" // of the whole topic
)

// batchLimit is max.message.bytes of the topics that we make: any append that commitlog lets
// through fits, however many headers it has (within reason).
const batchLimit = 32 << 20

// settings are the configuration that a topic is created with.
func (l *kafkaLog) settings(c driver.TopicConfig) map[string]string {
	m := map[string]string{
		maxMessageBytes:                  strconv.Itoa(batchLimit),
		"message.timestamp.type":         "CreateTime",
		cleanupPolicy:                    "delete",
		retentionMillis:                  "-1",
		retentionBytes:                   "-1",
		compressionType:                  "producer",
		"unclean.leader.election.enable": "false",
		// A record's timestamp is the caller's; Kafka 4 refuses those an hour ahead by default.
		cardSetting: cardValue(0),
	}
	if c.RetentionAgeMillis > 0 {
		m[ownMillis] = strconv.FormatInt(c.RetentionAgeMillis, 10)
		if c.RetentionForce {
			m[retentionMillis] = m[ownMillis]
		}
	}
	if c.RetentionBytes > 0 {
		m[ownBytes] = strconv.FormatInt(c.RetentionBytes, 10)
		if c.RetentionForce {
			m[retentionBytes] = strconv.FormatInt(max(1, c.RetentionBytes/int64(c.Partitions)), 10)
		}
	}
	if c.RetentionForce && c.RetentionAgeMillis == 0 && c.RetentionBytes == 0 {
		m[retentionMillis] = strconv.FormatInt(1<<63-1, 10) // forced, and never due
	}
	if l.c.Flush {
		m[flushMessages] = "1"
	}
	return m
}

// configOfTopic reads a topic's configuration back. Topics that others made have Kafka's own
// retention, which heeds no hold: RetentionForce.
func configOfTopic(name string, partitions int, settings map[string]string) driver.TopicConfig {
	get := func(key string) int64 {
		v, err := strconv.ParseInt(settings[key], 10, 64)
		if err != nil {
			return -1
		}
		return v
	}
	c := driver.TopicConfig{Name: name, Partitions: partitions, Compacted: strings.Contains(settings[cleanupPolicy], "compact")}
	c.RetentionAgeMillis, c.RetentionBytes = max(0, get(ownMillis)), max(0, get(ownBytes))
	age, size := get(retentionMillis), get(retentionBytes)
	c.RetentionForce = age >= 0 || size >= 0
	if c.RetentionAgeMillis == 0 && age >= 0 && age != 1<<63-1 {
		c.RetentionAgeMillis = age
	}
	if c.RetentionBytes == 0 && size >= 0 {
		c.RetentionBytes = size * int64(partitions)
	}
	return c
}

// limitOf is the largest batch that a topic takes; 0: it is sealed.
func limitOf(settings map[string]string) int {
	v, err := strconv.Atoi(settings[maxMessageBytes])
	if err != nil {
		return 1 << 20 // not told: Kafka's default
	}
	return v
}

// describeConfigs reads the settings of topics as some broker knows them; those that don't exist
// are left out.
func (l *kafkaLog) describeConfigs(ctx context.Context, names ...string) (map[string]map[string]string, error) {
	if len(names) == 0 {
		return map[string]map[string]string{}, nil
	}
	resp, err := anyBroker(ctx, l, settingsRequest(names...))
	if err != nil {
		return nil, err
	}
	return settingsIn(resp)
}

// settingsAt are the settings of the topic as one broker knows them: brokers learn of a change one
// after another. nil: it does not know the topic.
func (s *store) settingsAt(ctx context.Context, broker int32) (map[string]string, error) {
	resp, err := settingsRequest(s.kafkaName).RequestWith(ctx, brokerOf(s.l.main, broker))
	if err != nil {
		return nil, err
	}
	all, err := settingsIn(resp)
	return all[s.kafkaName], err
}

func settingsRequest(names ...string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, n := range names {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, n
		r.ConfigNames = []string{maxMessageBytes, sealMark, minInSync, flushMessages, retentionMillis, retentionBytes, ownMillis, ownBytes, cardSetting}
		req.Resources = append(req.Resources, r)
	}
	return req
}

func settingsIn(resp *kmsg.DescribeConfigsResponse) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); errors.Is(err, kerr.UnknownTopicOrPartition) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("settings of topic %q: %w: %s", r.ResourceName, err, text(r.ErrorMessage))
		}
		m := map[string]string{}
		for _, c := range r.Configs {
			if c.Value != nil {
				m[c.Name] = *c.Value
			}
		}
		all[r.ResourceName] = m
	}
	return all, nil
}
