package kafkalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/internal/fault"
)

// Which broker to ask, and for how long. What only the leader of a partition can do is asked of the leader
// that was seen last, and after a failure of the leader of that time (onLeader, persist). What any broker can do
// is asked of several one after another, as one that is stopped keeps its connections open and never answers
// (anyBroker). So a request may be carried out twice and late, and must bear it. Of an error it has to be
// known whether it may pass: kind says which do not.
//
// That a topic is gone is final for a handle, so it is believed only when every broker that answers says so,
// several times in a row.

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
	var cause error // the last answer that was more than the end of ctx
	for n := 0; ; n++ {
		err := f(limited)
		if err == nil {
			return nil
		}
		if limited.Err() == nil {
			cause = err
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
		switch {
		case ctx.Err() == nil:
		case cause != nil:
			return fmt.Errorf("%w; the last answer: %s", ctx.Err(), cause.Error()) // its kind is that of ctx alone
		default:
			return fmt.Errorf("%w; no answer until then", ctx.Err())
		}
		if limited.Err() != nil {
			return fmt.Errorf("%w: tried for %v: %w", fault.Unavailable, patience, cmp.Or(cause, err))
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

// topicMeta is what a broker says of a topic.
type topicMeta struct {
	id       [16]byte
	leaders  []int32 // by partition; -1: none now
	epochs   []int32 // of the leaders
	replicas []int32 // the brokers of all partitions, each once
	offline  []int32 // those of them that are dead or fenced
	fewest   int     // replicas of a partition
}

func metadataRequest(names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(n)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// metadata asks for topics by their names in Kafka; the result has only those that exist. No names: all.
func (l *kafkaLog) metadata(ctx context.Context, names ...string) (map[string]topicMeta, error) {
	resp, err := anyBroker(ctx, l, metadataRequest(names...))
	if err != nil {
		return nil, err
	}
	return topicsIn(resp)
}

// soon is how long a broker may take for an answer before another one is asked; when all were, each
// is given twice as long.
const soon = 2 * time.Second

// anyBroker sends a request to some broker, and to the others, one after another, while there is no
// answer soon: one that is stopped keeps its connections open. In KRaft all of them take what is for
// the controller and pass it on, and the one that the client takes for the controller is just any.
//
// So the cluster may meet the request twice, and the second time late. It must be one that may be
// repeated: it reads, or finds its effect there already.
func anyBroker[T any, R kmsg.Response, P interface {
	*T
	kmsg.Request
	RequestWith(ctx context.Context, r kmsg.Requestor) (R, error)
}](ctx context.Context, l *kafkaLog, req P,
) (R, error) {
	for limit := soon; ; limit *= 2 {
		brokers := append([]*kgo.Broker{l.quick.Load(), nil}, l.main.DiscoveredBrokers()...)
		if brokers[0] == nil {
			brokers = brokers[1:]
		}
		for i, b := range brokers {
			limited, cancel := context.WithTimeout(ctx, limit)
			copied := P(new(T))
			*copied = *req // the client may still have its hands on one that was given up
			var to kmsg.Requestor = l.main
			if b != nil {
				to = b
			}
			resp, err := copied.RequestWith(limited, to)
			slow := limited.Err() != nil
			cancel()
			switch {
			case err == nil && i > 0:
				l.quick.Store(b)
				return resp, nil
			case err == nil, ctx.Err() != nil, b == nil && !slow, i == len(brokers)-1 && limit > requestTimeout:
				return resp, err
			}
			l.quick.CompareAndSwap(b, nil)
		}
	}
}

// search asks all brokers for a topic: one may not know it yet, or any more. The result is what
// the others say.
func (l *kafkaLog) search(ctx context.Context, kafkaName string) ([]topicMeta, error) {
	resp, err := anyBroker(ctx, l, metadataRequest(kafkaName))
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answers := make([]*topicMeta, len(resp.Brokers))
	var wg sync.WaitGroup
	for i, b := range resp.Brokers {
		wg.Go(func() {
			resp, err := metadataRequest(kafkaName).RequestWith(limited, brokerOf(l.main, b.NodeID))
			if err != nil {
				return // a broker that does not answer can't serve the topic either
			}
			if all, err := topicsIn(resp); err == nil {
				if m, ok := all[kafkaName]; ok {
					answers[i] = &m
				}
			}
		})
	}
	wg.Wait()
	var found []topicMeta
	for _, m := range answers {
		if m != nil {
			found = append(found, *m)
		}
	}
	return found, ctx.Err()
}

// metaAt is what one broker says of the topic; fault.NotFound if it does not know it.
func (s *store) metaAt(ctx context.Context, broker int32) (topicMeta, error) {
	resp, err := metadataRequest(s.kafkaName).RequestWith(ctx, brokerOf(s.l.main, broker))
	if err != nil {
		return topicMeta{}, err
	}
	all, err := topicsIn(resp)
	if m, ok := all[s.kafkaName]; err == nil && ok && m.id == s.id {
		return m, nil
	}
	return topicMeta{}, cmp.Or(err, fmt.Errorf("broker %d knows the topic: %w", broker, fault.NotFound))
}

func topicsIn(resp *kmsg.MetadataResponse) (map[string]topicMeta, error) {
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
		n := len(t.Partitions)
		m := topicMeta{id: t.TopicID, leaders: make([]int32, n), epochs: make([]int32, n)}
		for i := range m.leaders {
			m.leaders[i], m.epochs[i] = -1, -1
		}
		for i, p := range t.Partitions {
			if p.Partition >= 0 && int(p.Partition) < n {
				m.leaders[p.Partition], m.epochs[p.Partition] = p.Leader, p.LeaderEpoch
			}
			if i == 0 || len(p.Replicas) < m.fewest {
				m.fewest = len(p.Replicas)
			}
			m.replicas = append(m.replicas, p.Replicas...)
			m.offline = append(m.offline, p.OfflineReplicas...)
		}
		m.replicas, m.offline = once(m.replicas), once(m.offline)
		found[*t.Topic] = m
	}
	return found, nil
}

func once(ids []int32) []int32 {
	slices.Sort(ids)
	return slices.Compact(ids)
}

// brokerOf is a broker that can be asked; -1: there is none.
func brokerOf(c *kgo.Client, broker int32) kmsg.Requestor {
	if broker < 0 {
		return noBroker{}
	}
	return c.Broker(int(broker))
}

type noBroker struct{}

func (noBroker) Request(context.Context, kmsg.Request) (kmsg.Response, error) {
	return nil, errNoLeader
}

// refresh looks up the partitions' leaders. fault.NotFound when the topic is gone for good: it is
// missing, or another one has its name, on every broker that answers and several times in a row,
// because one that has just started may not know everything yet.
func (s *store) refresh(ctx context.Context) error {
	for n := 0; ; n++ {
		if s.gone.Load() {
			return s.errGone()
		}
		found, err := s.l.metadata(ctx, s.kafkaName)
		if err != nil {
			return err
		}
		m, ok := found[s.kafkaName]
		if ok && m.id == s.id {
			s.meta.Store(&m)
			return nil
		}
		if n == 3 {
			all, err := s.l.search(ctx, s.kafkaName)
			if err != nil {
				return err
			}
			for _, m := range all {
				if m.id == s.id {
					s.meta.Store(&m)
					return nil
				}
			}
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
	leader, _ := s.meta.Load().leader(partition)
	return leader
}

// leader is a partition's, and its epoch; -1: unknown.
func (m *topicMeta) leader(partition int) (broker, epoch int32) {
	if partition >= len(m.leaders) {
		return -1, -1
	}
	return m.leaders[partition], m.epochs[partition]
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
