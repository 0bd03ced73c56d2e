package kafkalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

var _ driver.OffsetPublisher = (*kafkaLog)(nil)

// PublishOffsets commits offsets to the Kafka group of that name behind the log's prefix, as a
// consumer that is no member of it: what Kafka allows while the group has no members.
func (l *kafkaLog) PublishOffsets(ctx context.Context, group string, at []driver.PublishedOffset) error {
	if err := l.usable(ctx); err != nil || len(at) == 0 {
		return err
	}
	var names []string
	index := map[string]int{}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = l.c.Prefix+group, -1
	note := "published by Ringfence"
	for _, p := range at {
		name := l.kafkaName(p.Topic)
		i, ok := index[name]
		if !ok {
			i = len(req.Topics)
			index[name] = i
			names = append(names, name)
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic = name
			req.Topics = append(req.Topics, t)
		}
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset, part.Metadata = int32(p.Partition), p.Next, &note //nolint:gosec // at most 4096
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, part)
	}
	err := persist(ctx, func(ctx context.Context) error {
		found, err := l.metadata(ctx, names...)
		if err != nil {
			return err
		}
		for i := range req.Topics {
			m, ok := found[req.Topics[i].Topic]
			if !ok {
				return fmt.Errorf("topic %q: %w", req.Topics[i].Topic, fault.NotFound)
			}
			req.Topics[i].TopicID = m.id
		}
		resp, err := req.RequestWith(ctx, l.main)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return foreignGroup(err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("publish the offsets of group %q to Kafka's group %q: %w", group, req.Group, err)
	}
	return nil
}

// foreignGroup tells a group that Kafka's own consumers are in.
func foreignGroup(err error) error {
	for _, taken := range []error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.FencedMemberEpoch, kerr.StaleMemberEpoch, kerr.GroupIDNotFound} {
		if errors.Is(err, taken) {
			return fmt.Errorf("%w: it has members that are Kafka's own consumers: %w", fault.Conflict, err)
		}
	}
	return err
}
