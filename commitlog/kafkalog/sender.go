package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/internal/fault"
)

// A partition that has something to send stands in the list of the broker that leads it, once,
// however much it has. The broker's sender takes one batch of each of them into a request, first
// come first, and makes no third one while two are on their way: what comes in the meantime makes
// the next batches larger. So under load requests grow by themselves, and no append waits for a timer.
//
// A partition has one batch on its way at a time. Its holder, the sender or what handles the
// answer, owns its queue (queue.go), so its order needs no lock.

const (
	// slots is how many requests may be on their way to a broker. It works on one at a time; the
	// second one hides the way there and back.
	slots = 2
	// requestBytes is the size up to which batches share a request.
	requestBytes = 8 << 20
)

// sender sends the batches of the partitions that one broker leads.
type sender struct {
	l      *kafkaLog
	broker int32 // -1: of partitions without a leader
	slots  chan struct{}
	bell   chan struct{}

	mu      sync.Mutex
	list    []*partition // that have something to send
	stopped bool
}

// ready hands a partition to the sender of its leader. The caller owns p.
func (l *kafkaLog) ready(p *partition) {
	broker := p.s.leader(p.index)
	l.mu.Lock()
	s := l.senders[broker]
	if s == nil && !l.done {
		s = &sender{l: l, broker: broker, slots: make(chan struct{}, slots), bell: make(chan struct{}, 1)}
		l.senders[broker] = s
		l.wg.Go(s.run)
	}
	l.mu.Unlock()
	if s == nil || !s.add(p) {
		p.failAll(errClosed)
	}
}

func (s *sender) add(p *partition) bool {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return false
	}
	s.list = append(s.list, p)
	s.mu.Unlock()
	s.wake()
	return true
}

func (s *sender) wake() {
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// run sends until the log is closed, and then fails what is left.
func (s *sender) run() {
	for s.l.ctx.Err() == nil {
		select {
		case <-s.bell:
		case <-s.l.ctx.Done():
			continue
		}
		select {
		case s.slots <- struct{}{}:
		case <-s.l.ctx.Done():
			continue
		}
		batches := s.gather()
		if len(batches) == 0 || !s.l.start(func() { s.ship(batches) }) {
			<-s.slots
			for _, b := range batches {
				b.p.produce.retry = b.batch
				b.p.failAll(errClosed)
			}
		}
	}
	s.mu.Lock()
	s.stopped = true
	left := s.list
	s.list = nil
	s.mu.Unlock()
	for _, p := range left {
		p.failAll(errClosed)
	}
}

// outgoing is a batch and where it goes.
type outgoing struct {
	p *partition
	*batch
}

// gather forms the batches of one request.
func (s *sender) gather() []outgoing {
	s.mu.Lock()
	list := s.list
	s.list = nil
	s.mu.Unlock()
	var batches []outgoing
	total := 0
	for i, p := range list {
		if total >= requestBytes {
			s.mu.Lock()
			s.list = append(list[i:len(list):len(list)], s.list...)
			s.mu.Unlock()
			s.wake()
			break
		}
		b, ask, depth := p.form()
		switch {
		case b != nil:
			batches = append(batches, outgoing{p, b})
			total += len(b.data)
		case ask != nil:
			if !s.l.start(func() { p.learn(ask, depth) }) {
				p.failAll(errClosed)
			}
		default:
			p.rest()
		}
	}
	return batches
}

// ship sends one request, waits for the answer, and deals with it. It runs beside run, at most
// slots times, and is joined by the log's Close.
func (s *sender) ship(batches []outgoing) {
	ctx, cancel := context.WithTimeout(s.l.ctx, 2*requestTimeout)
	errs, firsts := s.l.produce(ctx, s.broker, batches)
	cancel()
	<-s.slots
	var again []*partition
	for i, x := range batches {
		if errs[i] == nil {
			x.p.remember(x.batch, firsts[i])
			x.p.rest() // the broker has something to do while the callers are told
			x.p.tell(x.batch, firsts[i])
		}
	}
	for i, x := range batches {
		switch {
		case errs[i] == nil:
		case x.p.outcome(x.batch, errs[i]):
			x.p.rest()
		default:
			again = append(again, x.p)
		}
	}
	if len(again) == 0 {
		return
	}
	n := 0
	stores := map[*store]struct{}{}
	for _, p := range again {
		stores[p.s] = struct{}{}
		if b := p.produce.retry; b != nil {
			n = max(n, b.attempts-1)
		}
	}
	sleep(s.l.ctx, n)
	for t := range stores {
		ctx, cancel := context.WithTimeout(s.l.ctx, requestTimeout)
		if err := t.refresh(ctx); err != nil {
			s.l.c.Logger.Debug("looking for the leaders of a topic", "topic", t.config.Name, "error", err)
		}
		cancel()
	}
	for _, p := range again {
		if p.s.gone.Load() {
			p.failAll(p.s.errGone())
			continue
		}
		p.rest()
	}
}

// produce sends batches to a broker, and gives the outcome of each: an error, or the first offset.
func (l *kafkaLog) produce(ctx context.Context, broker int32, batches []outgoing) (errs []error, firsts []int64) {
	errs, firsts = make([]error, len(batches)), make([]int64, len(batches))
	req := kmsg.NewPtrProduceRequest()
	req.Acks = -1
	req.TimeoutMillis = int32(requestTimeout.Milliseconds())
	at := map[*store]int{}
	for _, x := range batches {
		x.broker = broker
		i, ok := at[x.p.s]
		if !ok {
			t := kmsg.NewProduceRequestTopic()
			t.Topic, t.TopicID = x.p.s.kafkaName, x.p.s.id
			i = len(req.Topics)
			at[x.p.s] = i
			req.Topics = append(req.Topics, t)
		}
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = int32(x.p.index), x.data //nolint:gosec // at most 4096
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, part)
	}
	resp, err := req.RequestWith(ctx, brokerOf(l.main, broker))
	for i, x := range batches {
		if errs[i] = err; err == nil {
			firsts[i], errs[i] = answerFor(resp, x.p)
		}
	}
	return errs, firsts
}

var errNoAnswer = errors.New("the broker's answer leaves the partition out, or names a place that can't be")

func answerFor(resp *kmsg.ProduceResponse, p *partition) (int64, error) {
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if resp.Version >= 13 && t.TopicID != p.s.id || resp.Version < 13 && t.Topic != p.s.kafkaName {
			continue
		}
		for j := range t.Partitions {
			part := &t.Partitions[j]
			if int(part.Partition) != p.index {
				continue
			}
			if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
				if part.ErrorMessage != nil {
					err = fmt.Errorf("%w: %s", err, *part.ErrorMessage)
				}
				return 0, err
			}
			if part.BaseOffset < 0 {
				return 0, errNoAnswer
			}
			return part.BaseOffset, nil
		}
	}
	return 0, errNoAnswer
}

// expired says that a batch was tried long enough.
func (p *partition) expired(b *batch) bool {
	return time.Since(b.since()) > p.s.l.c.DeliveryTimeout || p.s.l.ctx.Err() != nil
}

// beforeTheAppend are the answers that a broker gives before it stores a batch. All others may come
// from one that has stored it: a leader that is deposed while it waits for the replicas answers
// NOT_LEADER_OR_FOLLOWER, and the next leader has the batch. That a topic is unknown is answered before
// the append or once the topic is deleted, and the batch with it.
var beforeTheAppend = []error{
	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.NotEnoughReplicas, kerr.CorruptMessage,
	kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.UnsupportedForMessageFormat, kerr.UnsupportedCompressionType,
	kerr.InvalidRequest, kerr.InvalidRequiredAcks, kerr.UnsupportedVersion, kerr.PolicyViolation,
	kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState,
	kerr.InvalidTopicException, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID,
	kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerEpoch, kerr.ProducerFenced,
}

// maybeStored says whether an attempt that ended with err may have stored its batch.
func maybeStored(err error) bool {
	if neverSent(err) || errors.Is(err, errNoLeader) {
		return false
	}
	for _, absent := range beforeTheAppend {
		if errors.Is(err, absent) {
			return false
		}
	}
	return true // also when the connection broke
}

// outcome deals with a batch that failed. false: it is to be tried again, after a while. The
// caller owns p.
func (p *partition) outcome(b *batch, err error) bool {
	b.attempts++
	b.maybe = b.maybe || maybeStored(err)
	switch {
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return p.tooLarge(b, err)
	case errors.Is(err, kerr.OutOfOrderSequenceNumber), errors.Is(err, kerr.DuplicateSequenceNumber),
		errors.Is(err, kerr.InvalidProducerEpoch), errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.UnknownProducerID):
		return p.outOfStep(b, err)
	}
	if k := kind(err); k != nil {
		p.fail(b, fmt.Errorf("%w: %w", k, err))
		return true
	}
	return p.again(b, err)
}

// again has a batch sent again as it is, unless it was tried long enough. The result is that of
// outcome.
func (p *partition) again(b *batch, err error) bool {
	if p.s.l.ctx.Err() != nil {
		p.fail(b, errClosed)
		return true
	}
	if p.expired(b) {
		p.fail(b, fmt.Errorf("%w: tried for %v: %w", fault.Unavailable, p.s.l.c.DeliveryTimeout, err))
		return true
	}
	if b.attempts == 1 {
		p.s.l.c.Logger.Warn("an append has to be repeated", "topic", p.s.config.Name, "partition", p.index, "error", err)
	}
	p.produce.retry = b
	return false
}

// succeed acks the appends of a batch that stands at an offset.
func (p *partition) succeed(b *batch, first int64) {
	p.remember(b, first)
	p.tell(b, first)
}

// remember notes where the appends of a batch stand.
func (p *partition) remember(b *batch, first int64) {
	if b.identity.id == 0 {
		return
	}
	for _, w := range b.items {
		b.identity.remember(w.req.Producer.Sequence, first)
		first += int64(len(w.req.Records))
	}
}

// tell acks the appends of a batch. It needs nothing that only an owner of p may touch.
func (p *partition) tell(b *batch, first int64) {
	for _, w := range b.items {
		n := int64(len(w.req.Records))
		p.answer(w, first, nil)
		first += n
	}
}
