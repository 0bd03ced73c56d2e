package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// The questions of a reader to the leader of a partition. All are asked as "read committed": a reader sees
// up to the first transaction that is open, and nothing that is not replicated. So there are two ends, that
// of the leader's log (debugger) and the one that readers see (consumer), and what lies between them becomes
// readable later. A seal, which has to know that nothing more will come, asks for both (caughtUp).
// There are no fetch sessions: each request names all that it wants, and an answer is good for itself.

// fetchBytes is what one fetch asks for of a partition. The broker gives at least one batch.
const fetchBytes = 1 << 20

// want is a partition of a fetch.
type want struct {
	p      *partition
	offset int64
}

// fetch asks one broker for records of some partitions, and waits up to wait for the first.
func fetch(ctx context.Context, c *kgo.Client, broker int32, wait time.Duration, bytes int, list []want) (*kmsg.FetchResponse, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait.Milliseconds()), 1, int32(max(bytes, 16<<20)) //nolint:gosec // small
	req.IsolationLevel = 1                                                                                   // read committed
	req.SessionEpoch = -1                                                                                    // no session
	at := map[*store]int{}
	for _, w := range list {
		i, ok := at[w.p.s]
		if !ok {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = w.p.s.kafkaName, w.p.s.id
			i = len(req.Topics)
			at[w.p.s] = i
			req.Topics = append(req.Topics, t)
		}
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.FetchOffset, part.PartitionMaxBytes = int32(w.p.index), w.offset, int32(bytes) //nolint:gosec // small
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, part)
	}
	resp, err := req.RequestWith(ctx, brokerOf(c, broker))
	if err != nil {
		return nil, err
	}
	return resp, kerr.ErrorForCode(resp.ErrorCode)
}

// fetched is the part of a response about one partition; nil: there is none.
func fetched(resp *kmsg.FetchResponse, p *partition) *kmsg.FetchResponseTopicPartition {
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if resp.Version >= 13 && t.TopicID != p.s.id || resp.Version < 13 && t.Topic != p.s.kafkaName {
			continue
		}
		for j := range t.Partitions {
			if int(t.Partitions[j].Partition) == p.index {
				return &t.Partitions[j]
			}
		}
	}
	return nil
}

// fetchOne asks for what is there from an offset on, without waiting.
func (p *partition) fetchOne(ctx context.Context, offset int64, bytes int) (*kmsg.FetchResponseTopicPartition, error) {
	var part *kmsg.FetchResponseTopicPartition
	err := p.s.onLeader(ctx, p.index, func(ctx context.Context, broker int32) error {
		resp, err := fetch(ctx, p.s.l.main, broker, 0, bytes, []want{{p, offset}})
		if err != nil {
			return err
		}
		if part = fetched(resp, p); part == nil {
			return errNoAnswer
		}
		if err := kerr.ErrorForCode(part.ErrorCode); !errors.Is(err, kerr.OffsetOutOfRange) {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if part.ErrorCode == kerr.OffsetOutOfRange.Code {
		return nil, p.outOfRange(ctx, offset)
	}
	return part, nil
}

func (p *partition) outOfRange(ctx context.Context, offset int64) error {
	b, err := p.bounds(ctx)
	if err != nil {
		return err
	}
	return &driver.OutOfRangeError{Topic: p.s.config.Name, Partition: p.index, Offset: offset, First: b.First, End: b.Next}
}

// scan visits the batches between two offsets, those of aborted transactions and of Kafka's own
// too, and returns how far it came: the leader may show readers less than to.
func (p *partition) scan(ctx context.Context, from, to int64, visit func(*span) error) (int64, error) {
	for from < to {
		part, err := p.verifyFetch(ctx, from, fetchBytes)
		if err != nil {
			return from, err
		}
		f := &feed{start: from, end: from}
		f.add(part.RecordBatches, newAborts(part.AbortedTransactions))
		if f.end == from {
			return from, nil // the end, as this broker sees it
		}
		for i := range f.spans {
			if f.spans[i].corrupt != nil {
				return from, fmt.Errorf("partition %d offset %d: %w", p.index, f.spans[i].at, f.spans[i].corrupt)
			}
			if err := visit(&f.spans[i]); err != nil {
				return from, err
			}
		}
		from = f.end
	}
	return from, nil
}

// listOffset asks the leader for the first offset, for the end, or for the first offset at or after a time, as
// consumers see it or as the leader's own log has it.
func (p *partition) listOffset(ctx context.Context, who int32, at int64) (int64, error) {
	var offset int64
	err := p.s.onLeader(ctx, p.index, func(ctx context.Context, broker int32) (err error) {
		offset, err = p.listOffsetAt(ctx, broker, -1, who, at)
		return err
	})
	return offset, err
}

// listOffsetAt asks one broker, which refuses if it does not lead in that epoch; -1: in any.
func (p *partition) listOffsetAt(ctx context.Context, broker, epoch, who int32, at int64) (int64, error) {
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition, part.Timestamp, part.CurrentLeaderEpoch = int32(p.index), at, epoch //nolint:gosec // at most 4096
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = p.s.kafkaName, append(t.Partitions, part)
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel, req.Topics = who, 1, append(req.Topics, t)
	resp, err := req.RequestWith(ctx, brokerOf(p.s.l.main, broker))
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0 {
		return 0, errNoAnswer
	}
	topic, answer := resp.Topics[0].Topic, resp.Topics[0].Partitions[0]
	err = kerr.ErrorForCode(answer.ErrorCode)
	if err == nil && (topic != p.s.kafkaName || int(answer.Partition) != p.index || at < 0 && answer.Offset < 0) {
		err = errNoAnswer
	}
	return answer.Offset, err
}

const (
	earliest = -2
	latest   = -1

	consumer = -1
	debugger = -2 // sees what is not replicated yet
)

// bounds asks the leader for both ends. Sealed is not filled in. A first offset above the end is the sign of a
// trim in between, or of an answer that is wrong: to begin at the end then would skip all that is there.
func (p *partition) bounds(ctx context.Context) (driver.Bounds, error) {
	for n := 0; ; n++ {
		var first, next int64
		var both errgroup.Group
		both.Go(func() (err error) { next, err = p.listOffset(ctx, consumer, latest); return err })
		both.Go(func() (err error) { first, err = p.listOffset(ctx, consumer, earliest); return err })
		switch err := both.Wait(); {
		case err != nil:
			return driver.Bounds{}, err
		case first <= next:
			return driver.Bounds{First: first, Next: next}, nil
		case n == contradictions:
			return driver.Bounds{}, fmt.Errorf("topic %q partition %d: the broker says again and again that it begins at offset %d and ends at %d: %w",
				p.s.config.Name, p.index, first, next, fault.Unavailable)
		}
		sleep(ctx, n)
		if ctx.Err() != nil {
			return driver.Bounds{}, ctx.Err()
		}
	}
}

// contradictions is how often bounds that can't be are asked for anew.
const contradictions = 5

// caughtUp is bounds once readers see all that the leader has now: what is not replicated yet, or
// stands behind a transaction that is open, they see later.
func (p *partition) caughtUp(ctx context.Context) (driver.Bounds, error) {
	end, err := p.listOffset(ctx, debugger, latest)
	if err != nil {
		return driver.Bounds{}, err
	}
	for n, begun := 0, time.Now(); ; n++ {
		b, err := p.bounds(ctx)
		if err != nil || b.Next >= end {
			return b, err
		}
		if time.Since(begun) > patience {
			return b, fmt.Errorf("%w: the log goes to offset %d, and readers see it to %d only: the rest is not replicated yet, or a transaction is open", fault.Unavailable, end, b.Next)
		}
		sleep(ctx, n)
		if ctx.Err() != nil {
			return b, ctx.Err()
		}
	}
}

// offsetAt is the first offset of a record at or after a time; the end when there is none.
func (p *partition) offsetAt(ctx context.Context, millis int64) (int64, error) {
	at, err := p.listOffset(ctx, consumer, max(0, millis))
	if err != nil || at >= 0 {
		return at, err
	}
	return p.listOffset(ctx, consumer, latest)
}
