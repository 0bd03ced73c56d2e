package pulsarlog

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// partition is one partition of a topic in this process.
type partition struct {
	topic  *topic
	number int
	name   string // as the REST interface knows it

	writer  writer
	readers readers
	final   atomic.Int64 // one more than the end of a sealed partition; 0: not known to be sealed
}

func newPartition(t *topic, number int) *partition {
	p := &partition{topic: t, number: number, name: partitionName(t.config.Name, number)}
	p.writer.init(p)
	p.readers.p = p
	return p
}

func (p *partition) admin() *admin { return p.topic.log.admin }

// isFinal says whether an offset is the end of a sealed partition, as far as is known.
func (p *partition) isFinal(offset int64) bool {
	final := p.final.Load()
	return final > 0 && offset+1 >= final
}

func (p *partition) fail(what string, err error) error {
	return fmt.Errorf("%s topic %q partition %d: %w", what, p.topic.config.Name, p.number, err)
}

func (p *partition) stop() {
	p.writer.stop()
	p.readers.stop()
}

const holdPrefix = ownPrefix + "hold."

// bounds asks the broker. A partition that nothing was trimmed from begins at 0, so that a caller that
// waits at its beginning reads its first record whatever ledger that comes into.
func (p *partition) bounds(ctx context.Context) (driver.Bounds, error) {
	m, err := p.admin().metadata(ctx, p.topic.config.Name)
	if err != nil {
		return driver.Bounds{}, p.fail("bounds of", err)
	}
	b, _, err := p.boundsIn(ctx, m)
	return b, err
}

// boundsIn is bounds for a caller that has the metadata of the topic, with what the broker says of the storage.
func (p *partition) boundsIn(ctx context.Context, m metadata) (driver.Bounds, *stats, error) {
	s, next, err := p.look(ctx)
	if err != nil {
		return driver.Bounds{}, nil, p.fail("bounds of", err)
	}
	first, _, err := trimmed(m, p.number)
	if err != nil {
		return driver.Bounds{}, nil, p.fail("bounds of", err)
	}
	first = max(first, s.lost())
	return driver.Bounds{First: first, Next: max(first, next), Sealed: s.sealed()}, s, nil
}

// offsetAt finds the first entry that was published at or after a time. Records whose own
// timestamps are older than their publication are found too early, which is allowed.
func (p *partition) offsetAt(ctx context.Context, millis int64) (int64, error) {
	b, err := p.bounds(ctx)
	if err != nil {
		return 0, err
	}
	return p.offsetWithin(ctx, b, millis)
}

func (p *partition) offsetWithin(ctx context.Context, b driver.Bounds, millis int64) (int64, error) {
	if millis > time.Now().Add(time.Hour).UnixMilli() { // the broker answers with the last entry
		return b.Next, nil
	}
	at, err := p.admin().positionAt(ctx, p.name, max(millis, 1))
	if err != nil {
		return 0, p.fail("offset at a time in", err)
	}
	if at.Ledger < 0 || at.Entry < 0 {
		return b.First, nil
	}
	offset, err := pack(at.Ledger, at.Entry, 0)
	if err != nil {
		return 0, p.fail("offset at a time in", err)
	}
	return min(max(offset, b.First), b.Next), nil
}

// hold stores what a group still needs, and then applies retention.
func (t *topic) hold(ctx context.Context, name string, offsets []int64) error {
	b, err := json.Marshal(offsets)
	if err != nil {
		return fmt.Errorf("hold on topic %q: %w: %w", t.config.Name, fault.Invalid, err)
	}
	if err := t.log.admin.setProperties(ctx, t.config.Name, map[string]string{holdPrefix + name: string(b)}); err != nil {
		return fmt.Errorf("hold on topic %q: %w", t.config.Name, err)
	}
	return t.retain(ctx)
}
