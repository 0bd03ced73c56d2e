package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/internal/fault"
)

const (
	retryFirst = 20 * time.Millisecond // backoff after the first failure, doubled up to retryMost
	retryMost  = time.Second
	// patience is how long a call that is no append and no wait is tried before it is Unavailable.
	patience = 10 * time.Second
)

// sleep waits for the backoff after the n-th failure (from 0), or until ctx ends.
func sleep(ctx context.Context, n int) {
	t := time.NewTimer(min(retryFirst<<min(n, 10), retryMost))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// neverSent says that a request surely did not reach the broker.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// kind maps an answer of the broker to a fault; nil: it may pass by itself, try again.
func kind(err error) error {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed),
		errors.Is(err, kerr.GroupAuthorizationFailed), errors.Is(err, kerr.SaslAuthenticationFailed):
		return fault.Unavailable // to us, and at once: a wrong password is not tried again and again
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState), errors.Is(err, kerr.PolicyViolation),
		errors.Is(err, kerr.InvalidConfig), errors.Is(err, kerr.InvalidReplicationFactor), errors.Is(err, kerr.InvalidPartitions),
		errors.Is(err, kerr.UnsupportedVersion), errors.Is(err, kerr.InvalidRecord), errors.Is(err, kerr.InvalidTimestamp),
		errors.Is(err, kerr.RecordListTooLarge), errors.Is(err, kerr.InvalidRequest), errors.Is(err, kerr.UnsupportedForMessageFormat):
		return fault.Invalid
	case errors.Is(err, kerr.TopicAlreadyExists):
		return fault.Exists
	case errors.Is(err, kgo.ErrClientClosed):
		return fault.Closed
	}
	return nil
}

var errNoLeader = errors.New("the partition has no leader now")

// persist calls f until it succeeds or fails for good, with a backoff, for at most patience.
func persist(ctx context.Context, f func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for n := 0; ; n++ {
		err := f(limited)
		if err == nil {
			return nil
		}
		if isFault(err) {
			return err
		}
		if k := kind(err); k != nil {
			return fmt.Errorf("%w: %w", k, err)
		}
		if limited.Err() == nil {
			sleep(limited, n)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if limited.Err() != nil {
			return fmt.Errorf("%w: tried for %v: %w", fault.Unavailable, patience, err)
		}
	}
}

// isFault says whether an error has been given a kind already.
func isFault(err error) bool {
	for _, k := range []error{fault.Invalid, fault.NotFound, fault.Exists, fault.Sealed, fault.OutOfRange, fault.Corrupt, fault.Closed, fault.Unavailable, fault.Conflict} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

// topicMeta is what the cluster says of a topic.
type topicMeta struct {
	id      [16]byte
	leaders []int32 // by partition; -1: none now
}

// metadata asks for topics by their names in Kafka; the result has only those that exist. No names: all.
func (l *kafkaLog) metadata(ctx context.Context, names ...string) (map[string]topicMeta, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(n)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, l.main)
	if err != nil {
		return nil, err
	}
	found := make(map[string]topicMeta, len(resp.Topics))
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.Topic == nil || t.IsInternal {
			continue
		}
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			continue
		case err != nil && !errors.Is(err, kerr.LeaderNotAvailable):
			return nil, fmt.Errorf("topic %q: %w", *t.Topic, err)
		}
		m := topicMeta{id: t.TopicID, leaders: make([]int32, len(t.Partitions))}
		for i := range m.leaders {
			m.leaders[i] = -1
		}
		for _, p := range t.Partitions {
			if int(p.Partition) < len(m.leaders) {
				m.leaders[p.Partition] = p.Leader
			}
		}
		found[*t.Topic] = m
	}
	return found, nil
}

// ask sends a request to one broker.
func ask[R kmsg.Response](ctx context.Context, c *kgo.Client, broker int32, req kmsg.Request) (R, error) {
	var none R
	if broker < 0 {
		return none, errNoLeader
	}
	resp, err := c.Broker(int(broker)).Request(ctx, req)
	if err != nil {
		return none, err
	}
	r, ok := resp.(R)
	if !ok {
		return none, fmt.Errorf("an answer of type %T", resp)
	}
	return r, nil
}

// refresh looks up the partitions' leaders. fault.NotFound when the topic is gone for good:
// it is missing, or another one has its name, several times in a row, because a broker that has
// just started may not know everything yet.
func (s *store) refresh(ctx context.Context) error {
	for n := 0; ; n++ {
		if s.gone.Load() {
			return s.errGone()
		}
		found, err := s.l.metadata(ctx, s.kafkaName)
		if err != nil {
			return err
		}
		if m, ok := found[s.kafkaName]; ok && m.id == s.id {
			leaders := slices.Grow(m.leaders, s.config.Partitions)
			s.leaders.Store(&leaders)
			return nil
		}
		if n == 3 {
			s.gone.Store(true)
			s.wakeAll()
			return s.errGone()
		}
		sleep(ctx, n)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (s *store) errGone() error {
	return fmt.Errorf("topic %q was deleted: %w", s.config.Name, fault.NotFound)
}

// leader is where a partition was last seen; -1: unknown.
func (s *store) leader(partition int) int32 {
	leaders := *s.leaders.Load()
	if partition >= len(leaders) {
		return -1
	}
	return leaders[partition]
}

// onLeader calls f with the partition's leader until it succeeds, and looks for the leader anew
// when it fails.
func (s *store) onLeader(ctx context.Context, partition int, f func(ctx context.Context, broker int32) error) error {
	return persist(ctx, func(ctx context.Context) error {
		if s.gone.Load() {
			return s.errGone()
		}
		err := f(ctx, s.leader(partition))
		if err == nil || isFault(err) || kind(err) != nil {
			return err
		}
		if again := s.refresh(ctx); again != nil && isFault(again) {
			return again
		}
		return err
	})
}
