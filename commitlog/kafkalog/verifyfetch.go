package kafkalog

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// Kafka's checksum of a batch leaves out its base offset: one flipped bit on the wire, and a reader skips
// records, or a group goes on far above the end of the log. But each batch begins where the one before it
// ended, so a wrong offset shows as a gap or as an overlap. Real gaps are rare: a reader that begins inside a
// batch, a compacted topic. verifyFetch believes one when a second answer has it too.

// verifyFetch is fetchOne for a caller that goes by the offsets of the batches.
func (p *partition) verifyFetch(ctx context.Context, offset int64, bytes int) (*kmsg.FetchResponseTopicPartition, error) {
	part, err := p.fetchOne(ctx, offset, bytes)
	if err != nil || follows(part.RecordBatches, offset) {
		return part, err
	}
	again, err := p.fetchOne(ctx, offset, bytes)
	if err != nil {
		return nil, err
	}
	part.RecordBatches = agreed(part.RecordBatches, again.RecordBatches)
	if len(part.RecordBatches) == 0 {
		return nil, fmt.Errorf("topic %q partition %d: the broker was asked twice what stands at offset %d, and its answers differ: %w",
			p.s.config.Name, p.index, offset, fault.Unavailable)
	}
	return part, nil
}

// follows tells whether the first batch begins at offset, and each other one where the one before it ended.
func follows(raw []byte, offset int64) bool {
	for len(raw) > 0 {
		batch, last, rest := splitPlace(raw)
		if batch == nil {
			return true // cut off or damaged, which reading it finds
		}
		if int64(binary.BigEndian.Uint64(batch)) != offset { //nolint:gosec // as Kafka writes it
			return false
		}
		raw, offset = rest, last+1
	}
	return true
}

// splitPlace cuts off the first batch, which ends with the offset last; nil when it is not whole.
func splitPlace(raw []byte) (batch []byte, last int64, rest []byte) {
	if len(raw) < batchHeader {
		return nil, 0, nil
	}
	size := int64(int32(binary.BigEndian.Uint32(raw[8:]))) + 12 //nolint:gosec // as Kafka writes it
	if size < batchHeader || size > int64(len(raw)) {
		return nil, 0, nil
	}
	base := int64(binary.BigEndian.Uint64(raw))                                           //nolint:gosec // as Kafka writes it
	return raw[:size], base + int64(int32(binary.BigEndian.Uint32(raw[23:]))), raw[size:] //nolint:gosec // as Kafka writes it
}

// agreed is the begin that two answers have in common, in whole batches.
func agreed(one, other []byte) []byte {
	n := 0
	for {
		a, _, _ := splitPlace(one[n:])
		b, _, _ := splitPlace(other[min(n, len(other)):])
		if a == nil || !bytes.Equal(a, b) {
			return one[:n]
		}
		n += len(a)
	}
}

// trimmed is the error of an offset below the first one that is kept. It asks the broker again: one wrong
// answer would keep all readers out for as long as the process lives.
func (p *partition) trimmed(ctx context.Context, offset int64) error {
	b, err := p.bounds(ctx)
	if err != nil {
		return err
	}
	if offset < b.First {
		return &driver.OutOfRangeError{Topic: p.s.config.Name, Partition: p.index, Offset: offset, First: b.First, End: b.Next}
	}
	p.read.mu.Lock()
	defer p.read.mu.Unlock()
	p.read.first = min(p.read.first, b.First)
	return nil
}
