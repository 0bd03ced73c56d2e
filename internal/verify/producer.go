package verify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
)

// A producer numbers the records of its keys, and tells the history of each before it sends it. A plain one sends
// every record once, whatever the answer. An idempotent one has an ID for each key and storage topic, one record of it
// under way, and sends that until it is acknowledged, now and then once more; from a sealed storage topic it goes to
// the next, and with one that has forgotten what it had, on to the record behind.

const (
	pace       = 5 * time.Millisecond
	window     = 512 // records under way at once
	burst      = 4   // plain records of a key that are sent right behind each other, at most
	repeatOne  = 8   // of so many acknowledged records is sent again
	lastAnswer = 10 * time.Second
)

// producer is one process's.
type producer struct {
	Spec
	rf     *ringfence.Client
	out    *history.Writer
	random *rand.Rand
	keys   []*key
	again  []*key // whose record is to be sent again
	acks   chan ack
	open   int // records under way
}

// key is one key of a producer.
type key struct {
	name string
	sent int64 // number of the last record
	busy bool  // idempotent: it is under way, or waits to be sent again
	done int64 // number of the last that was acknowledged

	home  int   // storage topic that the records after base are numbered in; unsettled: one has to be asked for
	base  int64 // number of the last record that was sent to an earlier one
	moved bool  // home takes no more: the next record to be sent goes to a later storage topic
}

// unsettled is the home of a key that has none yet.
const unsettled = -1

// id is that of the key in its home.
func (p *producer) id(k *key) uint64 {
	return xxhash.Sum64String(fmt.Sprintf("%s/%s/%d", p.Topic, k.name, k.home)) | 1
}

// acknowledgedAgain is the reason of an event that tells of a record once more.
const acknowledgedAgain = "again"

// ack is the answer to one append.
type ack struct {
	key *key
	n   int64
	at  ringfence.Position
	err error
}

// produce sends until ctx ends, and waits for the answers.
func produce(ctx context.Context, s Spec, rf *ringfence.Client) (err error) {
	p := &producer{
		Spec: s, rf: rf, acks: make(chan ack, window+burst),
		random: rand.New(rand.NewPCG(xxhash.Sum64String(s.Name), uint64(s.Start))), //nolint:gosec // load, no secret
	}
	if err := p.begin(); err != nil {
		return err
	}
	file, err := os.OpenFile(s.path(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	p.out = history.NewWriter(file)
	return p.run(ctx)
}

// begin makes the keys, and reads how far earlier starts got with them.
func (p *producer) begin() error {
	life := p.Start
	if p.Load.Resume {
		life = 1
	}
	known := make(map[string]*key, p.Load.Keys)
	for i := range p.Load.Keys {
		k := &key{name: fmt.Sprintf("%s.%d/%d", p.Name, life, i), home: unsettled}
		known[k.name] = k
		p.keys = append(p.keys, k)
	}
	if !p.Load.Resume {
		return nil
	}
	earlier, err := filepath.Glob(filepath.Join(p.History, p.Name+"-*.jsonl"))
	if err != nil {
		return err
	}
	acked := make(map[string]int64)
	for _, path := range earlier {
		err := harness.Read(path, 0, func(e history.Event) {
			switch {
			case e.Kind == history.Sent && known[e.Key] != nil:
				known[e.Key].resume(&e)
			case e.Kind == history.Produced:
				acked[e.Key] = max(acked[e.Key], e.Sequence)
			}
		})
		if err != nil {
			return err
		}
	}
	for _, k := range p.keys {
		if p.Load.Idempotent && k.sent > acked[k.name] {
			k.busy = true
			p.again = append(p.again, k)
		}
	}
	return nil
}

// resume takes over what an earlier start told before it sent a record, in any order.
func (k *key) resume(e *history.Event) {
	k.sent = max(k.sent, e.Sequence)
	switch {
	case e.Storage > k.home:
		k.home, k.base = e.Storage, e.Sequence-1
	case e.Storage == k.home:
		k.base = min(k.base, e.Sequence-1)
	}
}

// run is the producer's loop. Answers come from any goroutine; all else is done here.
func (p *producer) run(ctx context.Context) error {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	began, sent := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return p.finish()
		case a := <-p.acks:
			if err := p.answered(&a); err != nil {
				return err
			}
		case <-ticker.C:
			due := int(time.Since(began).Seconds() * p.Load.Rate)
			if due-sent > window { // it was stopped, or the store was away: no flood afterwards
				began, sent = time.Now(), 0
				continue
			}
			n, err := p.send(ctx, due-sent)
			if err != nil {
				return err
			}
			sent += n
		}
	}
}

// finish waits for the answers to what is under way.
func (p *producer) finish() error {
	patience := time.After(lastAnswer)
	for p.open > 0 {
		select {
		case a := <-p.acks:
			if err := p.answered(&a); err != nil {
				return err
			}
		case <-patience:
			return nil // their fate is unknown
		}
	}
	return nil
}

// send sends what has to be sent again, and about n records more, as far as there is room for them.
func (p *producer) send(ctx context.Context, n int) (sent int, err error) {
	again := p.again
	p.again = nil
	for _, k := range again {
		if err := p.repeat(ctx, k); err != nil {
			return 0, err
		}
	}
	for tries := 0; sent < n && p.open < window && tries < n+len(p.keys); tries++ {
		k := p.keys[p.random.IntN(len(p.keys))]
		many := 1
		switch {
		case !p.Load.Idempotent:
			many += p.random.IntN(burst)
		case k.busy:
			continue
		}
		for range many {
			if err := p.next(ctx, k); err != nil {
				return sent, err
			}
			sent++
		}
	}
	return sent, nil
}

// next sends the next record of a key.
func (p *producer) next(ctx context.Context, k *key) error {
	k.sent++
	k.busy = true
	if p.Load.Idempotent && (k.home == unsettled || k.moved) {
		return p.settle(ctx, k)
	}
	return p.tell(ctx, k)
}

// repeat sends the last record of a key once more.
func (p *producer) repeat(ctx context.Context, k *key) error {
	if k.home == unsettled || k.moved {
		return p.settle(ctx, k)
	}
	p.append(ctx, k)
	return nil
}

// settle sends the last record of a key, stored nowhere yet, to the storage topic that takes new ones, or later.
func (p *producer) settle(ctx context.Context, k *key) error {
	home, err := p.rf.ProducerHome(ctx, p.Topic)
	if err != nil && !Away(err) && ctx.Err() == nil {
		return fmt.Errorf("where records of key %s go: %w", k.name, err)
	}
	if err == nil && home > k.home {
		k.home, k.base, k.moved = home, k.sent-1, false
		return p.tell(ctx, k)
	}
	p.again = append(p.again, k)
	return nil
}

// tell sends the last record of a key and says so before.
func (p *producer) tell(ctx context.Context, k *key) error {
	e := p.event(history.Sent, k, k.sent)
	e.Storage = max(k.home, 0)
	if err := p.out.Add(e); err != nil {
		return err
	}
	p.append(ctx, k)
	return nil
}

func (p *producer) append(ctx context.Context, k *key) {
	p.open++
	n := k.sent
	var opts *ringfence.ProduceOptions
	if p.Load.Idempotent {
		of := commitlog.Producer{ID: p.id(k), Epoch: int32(min(p.Start, 1<<30)), Sequence: n - 1 - k.base} //nolint:gosec // bounded
		opts = &ringfence.ProduceOptions{Producer: of, Home: k.home}
	}
	m := ringfence.Message{Key: []byte(k.name), Value: value(k.name, n, p.Load.Size)}
	p.rf.ProduceAsync(context.WithoutCancel(ctx), p.Topic, m, opts, func(at ringfence.Position, err error) {
		p.acks <- ack{k, n, at, err} // has room for all that are under way
	})
}

// answered tells the history of an answer. The error is one after which it is no use to go on.
func (p *producer) answered(a *ack) error {
	p.open--
	switch {
	case a.err == nil:
		return p.stored(a)
	case p.Load.Idempotent && errors.Is(a.err, fault.Sealed):
		a.key.moved = true
		p.again = append(p.again, a.key)
	case p.Load.Idempotent && errors.Is(a.err, fault.Forgotten):
		a.key.moved, a.key.busy = true, false
	case !Away(a.err) && !errors.Is(a.err, fault.NotDone):
		return fmt.Errorf("append record %d of key %s: %w", a.n, a.key.name, a.err)
	case p.Load.Idempotent:
		p.again = append(p.again, a.key)
	case errors.Is(a.err, fault.NotDone):
		return p.out.Add(p.event(history.Denied, a.key, a.n))
	}
	return nil
}

func (p *producer) stored(a *ack) error {
	a.key.busy = false
	if p.Load.Idempotent && p.random.IntN(repeatOne) == 0 {
		a.key.busy = true
		p.again = append(p.again, a.key)
	}
	if a.at.Offset < 0 {
		return nil // stored by an earlier append, at a forgotten place
	}
	e := p.event(history.Produced, a.key, a.n)
	e.Storage, e.Partition, e.Offset = a.at.Storage, a.at.Partition, a.at.Offset
	if a.n == a.key.done {
		e.Reason = acknowledgedAgain
	}
	a.key.done = max(a.key.done, a.n)
	return p.out.Add(e)
}

func (p *producer) event(kind history.Kind, k *key, n int64) history.Event {
	return history.Event{
		Kind: kind, At: history.Now(), Member: p.Name, Key: history.Key([]byte(k.name)), Sequence: n,
		Value: harness.Fingerprint([]byte(k.name), value(k.name, n, p.Load.Size)),
	}
}
