package pulsarlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/ringfence/ringfence/internal/fault"
)

// One entry, from the writer to its offset. The client does most of it, and three things it does not tell. It
// keeps an append to itself when the partition was terminated meanwhile: so the broker is asked after a while
// without an acknowledgement (await). It sends again by itself after a lost connection, and when the broker
// had the entry already there is no offset in the answer: then the entry is looked for, above the floor,
// below which none of this producer is unanswered (locate). And a producer would send later what this process
// has given up: so with an unknown fate the producer is closed (drop), and what comes next begins with a new
// one.
//
// In a terminated partition what is there is there for ever, so there the fate of an entry can be told
// (resolve).

const (
	// defaultSendTimeout is how long an append waits for a broker that is away. Then its fate is
	// unknown.
	defaultSendTimeout = 30 * time.Second
	// adminTimeout bounds a request that no caller waits for.
	adminTimeout = 10 * time.Second
	// firstDoubt is after which time without an acknowledgement the broker is asked whether the
	// partition was terminated: the client hears that and does not report it.
	firstDoubt = 200 * time.Millisecond
	lastDoubt  = 2 * time.Second
	// never is longer than a producer lives: entries end where the writer says.
	never = 24 * 365 * time.Hour
)

// brokerProducer is a producer of the client. Appends without an id share one of a name that the broker
// gives it; each id has one of its own, under which the broker knows its sequence.
type brokerProducer struct {
	name     string // "": the broker's choice
	producer pulsar.Producer
	floor    int64 // no entry of producer lies below it that was not answered
	doubt    bool  // the outcome of the last append is unknown, which the next one repeats
}

// called is the name under which the broker stores what it sends.
func (l *brokerProducer) called() string {
	if l.name == "" {
		return l.producer.Name()
	}
	return l.name
}

// connect makes the producer when there is none. It is patient with a connection that breaks
// meanwhile: the client closes that of all topics when the broker is not ready for one.
func (w *writer) connect(l *brokerProducer) error {
	if l.producer != nil {
		return nil
	}
	return patiently(context.Background(), loading, func() (bool, error) {
		err := w.tryConnect(l)
		return errors.Is(err, fault.Unavailable) && !isClosed(w.p.topic.ended), err
	})
}

func (w *writer) tryConnect(l *brokerProducer) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	s, err := w.p.admin().stats(ctx, w.p.name)
	if err != nil {
		return fmt.Errorf("%w: %w", kindOf(err, fault.NotDone), err)
	}
	if s.sealed() {
		return errSealed
	}
	if !l.doubt {
		if l.floor, err = s.next(); err != nil {
			return fmt.Errorf("%w: %w", fault.NotDone, err)
		}
	}
	c := &w.p.topic.log.config
	producer, err := w.p.topic.log.client.CreateProducer(pulsar.ProducerOptions{
		Topic: w.p.admin().fullName(w.p.name), Name: l.name, SendTimeout: w.p.topic.log.sendTimeout, MaxPendingMessages: 2 * batchRecords,
		CompressionType: compressions[c.Compression], DisableMultiSchema: true,
		BatchingMaxPublishDelay: never, BatchingMaxMessages: batchRecords, BatchingMaxSize: uint(c.MaxMessageBytes),
		PartitionsAutoDiscoveryInterval: never, BackOffPolicyFunc: newPauses,
	})
	switch {
	case err == nil:
		l.producer = producer // not before: with an error it is no nil interface
		return nil
	case isTerminated(err):
		return errSealed
	case isGone(err):
		return fmt.Errorf("it was deleted: %w", fault.NotFound)
	}
	return fmt.Errorf("%w: %w", fault.NotDone, c.logins.explain(err))
}

var errSealed = fmt.Errorf("it is %w and takes no more records", fault.Sealed)

// kindOf keeps the kind of an error that says that the topic is gone.
func kindOf(err, other error) error {
	if errors.Is(err, fault.NotFound) {
		return fault.NotFound
	}
	return other
}

func isTerminated(err error) bool {
	return errors.Is(err, pulsar.ErrTopicTerminated) || strings.Contains(err.Error(), "TopicTerminated")
}

func isGone(err error) bool {
	return errors.Is(err, pulsar.ErrTopicNotfound) || strings.Contains(err.Error(), "TopicNotFound")
}

func (l *brokerProducer) drop() {
	if l.producer != nil {
		l.producer.Close()
		l.producer = nil
	}
}

// send writes messages as one entry and returns the offset of the first.
func (w *writer) send(l *brokerProducer, messages []*pulsar.ProducerMessage) (int64, error) {
	err := w.connect(l)
	w.away, w.tried = nil, time.Now()
	if errors.Is(err, fault.NotDone) {
		w.away = err
	}
	if err != nil {
		if l.doubt && errors.Is(err, fault.Sealed) {
			return w.resolve(l)
		}
		return 0, err
	}
	f := l.fly(messages)
	terminated := w.await(l, f)
	if errors.Is(errors.Join(f.errs...), pulsar.ErrProducerClosed) && !terminated {
		terminated = w.terminated() // the client found out before us
	}
	err = errors.Join(f.errs...)
	switch {
	case err == nil:
		return w.place(l, f)
	case terminated || isTerminated(err):
		return w.resolve(l)
	case errors.Is(err, pulsar.ErrMessageTooLarge):
		return 0, fmt.Errorf("the broker takes smaller messages only (lower max-message=): %w: %w", fault.Invalid, err)
	}
	l.drop() // and with it whatever it would send again
	if isGone(err) {
		return 0, fmt.Errorf("it was deleted: %w", fault.NotFound)
	}
	return 0, fmt.Errorf("%w: %w", fault.Unknown, f.errs[len(f.errs)-1])
}

// flight is one entry on its way.
type flight struct {
	ids     []pulsar.MessageID
	errs    []error
	missing atomic.Int64
	landed  chan struct{}
}

// fly gives messages to the client and lets it send them.
func (l *brokerProducer) fly(messages []*pulsar.ProducerMessage) *flight {
	f := &flight{ids: make([]pulsar.MessageID, len(messages)), errs: make([]error, len(messages)), landed: make(chan struct{})}
	f.missing.Store(int64(len(messages)))
	for i, m := range messages {
		var once atomic.Bool
		land := func(id pulsar.MessageID, err error) {
			if !once.CompareAndSwap(false, true) {
				return
			}
			f.ids[i], f.errs[i] = id, err
			if f.missing.Add(-1) == 0 {
				close(f.landed)
			}
		}
		l.give(m, land)
	}
	// The flush waits for the acknowledgement, which comes to the messages too; only its start matters.
	ctx, cancel := context.WithTimeout(context.Background(), firstDoubt)
	defer cancel()
	if err := l.producer.FlushWithCtx(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		l.producer.Close() // which answers every message
	}
	return f
}

// give survives that the client closes a producer by itself while it is given a message.
func (l *brokerProducer) give(m *pulsar.ProducerMessage, land func(pulsar.MessageID, error)) {
	defer func() {
		if r := recover(); r != nil {
			land(nil, fmt.Errorf("%w: %v", pulsar.ErrProducerClosed, r))
		}
	}()
	l.producer.SendAsync(context.Background(), m, func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) { land(id, err) })
}

// await returns when all messages were answered, and whether the partition was found terminated.
func (w *writer) await(l *brokerProducer, f *flight) (terminated bool) {
	doubt := firstDoubt
	for {
		timer := time.NewTimer(doubt)
		select {
		case <-f.landed:
			timer.Stop()
			return terminated
		case <-timer.C:
		}
		doubt = min(2*doubt, lastDoubt)
		if terminated {
			continue
		}
		if terminated = w.terminated(); terminated {
			l.producer.Close() // which answers every message
		}
	}
}

func (w *writer) terminated() bool {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	s, err := w.p.admin().stats(ctx, w.p.name)
	return err == nil && s.sealed()
}

// place is the offset of an acknowledged entry.
func (w *writer) place(l *brokerProducer, f *flight) (int64, error) {
	head := f.ids[0]
	if head.LedgerID() < 0 || head.EntryID() < 0 {
		// The broker had it already: the answer to it was lost with a connection.
		return w.locate(l)
	}
	for i, id := range f.ids {
		if id.LedgerID() != head.LedgerID() || id.EntryID() != head.EntryID() || int(max(id.BatchIdx(), 0)) != i {
			return 0, fmt.Errorf("the client divided one append into several entries (%v, %v): %w", head, id, fault.Unknown)
		}
	}
	first, err := packID(head)
	if err != nil {
		return 0, fmt.Errorf("%w: it is stored where no offset reaches: %w", fault.Unknown, err)
	}
	return first, nil
}

// resolve finds out what became of an entry that was on its way when the partition was terminated:
// what is there now is there for ever.
func (w *writer) resolve(l *brokerProducer) (int64, error) {
	first, err := w.locate(l)
	l.drop()
	if errors.Is(err, errNotThere) {
		return 0, errSealed
	}
	return first, err
}

// errNotThere says that an entry was not found.
var errNotThere = fmt.Errorf("it was acknowledged and is not where it should be: %w", fault.Unknown)

// locate finds the newest entry of the producer above the floor, which can be no other than the
// one that was sent last.
func (w *writer) locate(l *brokerProducer) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), defaultSendTimeout)
	defer cancel()
	b, err := w.p.bounds(ctx)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", fault.Unknown, err)
	}
	found, name := int64(-1), l.called()
	err = w.p.scan(ctx, max(l.floor, b.First), b.Next, func(m pulsar.Message, offset int64) {
		if m.ProducerName() == name && max(m.ID().BatchIdx(), 0) == 0 {
			found = offset
		}
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %w", fault.Unknown, err)
	case found < 0:
		return 0, errNotThere
	}
	return found, nil
}
