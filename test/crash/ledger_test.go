package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
)

// entry is one record that was sent, and what its sender was told.
type entry struct {
	value     string
	partition int
	at        int64 // where it was acknowledged, or found; -1: nowhere
	acked     bool  // it stays as long as the host runs
	kept      bool  // it stays through a power loss
	refused   bool  // certainly not stored
}

// ledger is what was sent to a topic in all its lives, by several processes at two levels.
type ledger struct {
	mu      sync.Mutex
	entries map[string]*entry
	holder  [partitions]map[int64]*entry // who was given an offset, as far as that still counts
	sent    [partitions]int64
	trims   [partitions]int64 // tried
	frozen  bool              // the machine is gone: what is told now was told to nobody
	fault   error             // the first promise that an answer broke
}

func newLedger() *ledger {
	b := &ledger{entries: map[string]*entry{}}
	for p := range b.holder {
		b.holder[p] = map[int64]*entry{}
	}
	return b
}

func (b *ledger) begin(partition, size int) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := &entry{partition: partition, at: -1}
	e.value = fmt.Sprintf("%d/%d ", partition, b.sent[partition])
	e.value += strings.Repeat("x", max(0, size-len(e.value)))
	b.sent[partition]++
	b.entries[e.value] = e
	return e
}

// answered notes what the sender of a record was told.
func (b *ledger) answered(e *entry, first int64, err error, level driver.Durability) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.frozen:
	case err == nil:
		b.give(e, first)
		e.acked, e.kept = true, e.kept || level == driver.Sync
	case errors.Is(err, commitlog.ErrNotAppended):
		e.refused = true
	}
}

// give notes that a record has an offset. The caller has mu.
func (b *ledger) give(e *entry, at int64) {
	if other := b.holder[e.partition][at]; other != nil && other != e && b.fault == nil {
		b.fault = fmt.Errorf("offset %d of partition %d was given to %.12q, and then to %.12q", at, e.partition, other.value, e.value)
	}
	b.holder[e.partition][at] = e
	e.at = at
}

func (b *ledger) freeze() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frozen = true
}

// lose takes back what a power loss may take. Offsets that nobody was told of as durable may be
// given out again.
func (b *ledger) lose() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frozen = false
	for _, e := range b.entries {
		if e.kept || e.at < 0 {
			continue
		}
		delete(b.holder[e.partition], e.at)
		e.at, e.acked = -1, false
	}
}

func (b *ledger) trimming(partition int, before int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trims[partition] = max(b.trims[partition], before)
}

// audit reads all of a topic and compares. level is that of the reader: what one at level sync sees
// is durable.
func (b *ledger) audit(ctx context.Context, t *commitlog.Topic, level driver.Durability) error {
	found := map[string]bool{}
	var first [partitions]int64
	for p := range partitions {
		var err error
		if first[p], err = b.auditPartition(ctx, t, p, level, found); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.entries {
		must := e.kept || e.acked && level == driver.OS
		switch {
		case must && !found[e.value] && e.at >= first[e.partition]:
			return fmt.Errorf("%.12q was acknowledged at offset %d of partition %d and is lost (durable: %v)", e.value, e.at, e.partition, e.kept)
		case e.refused && found[e.value]:
			return fmt.Errorf("%.12q was certainly refused and is there", e.value)
		}
	}
	return b.fault
}

func (b *ledger) auditPartition(ctx context.Context, t *commitlog.Topic, p int, level driver.Durability, found map[string]bool) (int64, error) {
	bounds, err := t.Bounds(ctx, p)
	if err != nil {
		return 0, err
	}
	b.mu.Lock()
	sent, trimmed := b.sent[p], b.trims[p]
	b.mu.Unlock()
	if bounds.First > trimmed || bounds.Next > sent {
		return 0, fmt.Errorf("partition %d has the bounds [%d, %d); it was trimmed to %d at most, and %d records were sent", p, bounds.First, bounds.Next, trimmed, sent)
	}
	for at := bounds.First; at < bounds.Next; {
		recs, next, err := t.Read(ctx, p, at, nil, nil)
		if err != nil {
			return 0, fmt.Errorf("read partition %d from %d of [%d, %d): %w", p, at, bounds.First, bounds.Next, err)
		}
		if next <= at {
			return 0, fmt.Errorf("partition %d: a read from %d of [%d, %d) gets nowhere", p, at, bounds.First, bounds.Next)
		}
		for _, r := range recs {
			if err := b.saw(p, r.Offset, string(r.Value), level); err != nil {
				return 0, err
			}
			if found[string(r.Value)] {
				return 0, fmt.Errorf("%.12q is stored twice", r.Value)
			}
			found[string(r.Value)] = true
		}
		at = next
	}
	return bounds.First, nil
}

// saw notes a record that a reader was shown.
func (b *ledger) saw(partition int, at int64, value string, level driver.Durability) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[value]
	switch {
	case e == nil || e.partition != partition:
		return fmt.Errorf("partition %d offset %d holds %.12q, which nobody sent there", partition, at, value)
	case e.at >= 0 && e.at != at:
		return fmt.Errorf("%.12q had offset %d of partition %d and stands at %d", value, e.at, partition, at)
	}
	b.give(e, at)
	e.acked = true // who has seen it relies on it
	e.kept = e.kept || level == driver.Sync
	return b.fault
}
