package pulsarlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// A broker that refuses every append to a sealed partition says nothing of whether it has one already.
// But what is there now is there for ever, and the first record of each append with a producer id names
// it and its sequence. So a refused append has the partition read, once in each process.

// sequenceProperty is on the first record of an append with a producer id.
const sequenceProperty = ownPrefix + "sequence"

// past is what a sealed partition has of the appends with an id.
type past struct {
	of      map[string]*appended // by the name of the producer
	at      int64                // all below it was read
	whole   bool                 // and that is all
	trimmed bool                 // records are missing at the beginning, of unknown producers
}

// appended is what a producer has in a partition.
type appended struct {
	last   int64 // sequence
	firsts map[int64]int64
}

// note takes down a record that was read.
func (p *past) note(m pulsar.Message, offset int64) {
	p.at = offset + 1
	sequence, err := strconv.ParseInt(m.Properties()[sequenceProperty], 10, 64)
	if err != nil {
		return
	}
	a := p.of[m.ProducerName()]
	if a == nil {
		a = &appended{firsts: map[int64]int64{}}
		p.of[m.ProducerName()] = a
	}
	a.last = max(a.last, sequence)
	a.firsts[sequence] = offset
	delete(a.firsts, a.last-driver.ProducerWindow)
}

// find gives the first offset of an append; -1 when it is not known.
func (p *past) find(name string, sequence int64) (int64, error) {
	a := p.of[name]
	switch {
	case a != nil && sequence <= a.last:
		if first, ok := a.firsts[sequence]; ok {
			return first, nil
		}
		return -1, nil
	case a == nil && p.trimmed:
		return 0, fmt.Errorf("it is sealed, and what retention has dropped may be of this producer: %w", fault.Forgotten)
	}
	return 0, errSealed
}

// recall finds an append in a partition that was found sealed. Reading goes on where a call before
// had to give up.
func (w *writer) recall(name string, sequence int64) (int64, error) {
	if w.past == nil {
		w.past = &past{of: map[string]*appended{}}
	}
	if !w.past.whole {
		ctx, cancel := context.WithTimeout(context.Background(), w.p.topic.log.sendTimeout)
		defer cancel()
		if err := w.readPast(ctx); err != nil {
			return 0, fmt.Errorf("it is sealed, and whether it has this append can't be read: %w: %w", fault.Unknown, err)
		}
	}
	return w.past.find(name, sequence)
}

func (w *writer) readPast(ctx context.Context) error {
	p := w.past
	before, err := w.p.bounds(ctx)
	if err != nil {
		return err
	}
	if err := w.p.scan(ctx, max(p.at, before.First), before.Next, p.note); err != nil {
		return err
	}
	after, err := w.p.bounds(ctx)
	p.whole, p.trimmed = err == nil, after.First > 0
	return errors.Join(ctx.Err(), err)
}
