package memlog

import (
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// topic is the state of a topic, shared by all handles. mu guards it, and its partitions with
// it, because a seal is atomic over all of them.
type topic struct {
	config driver.TopicConfig // its retention is guarded by mu, see now
	gaps   bool

	mu      sync.Mutex
	deleted bool
	sealed  bool
	parts   []*partition
	holds   map[string][]int64
	epochs  map[uint64]int32 // of idempotent producers, by ID: the highest that was acknowledged
	// queue has every kept record in the order of the appends: what retention drops is the oldest of
	// the whole topic, as a log of segments would have it.
	queue []queued
	bytes int64
}

type queued struct {
	partition int
	offset    int64
	bytes     int64
	millis    int64 // of the append
}

func newTopic(c driver.TopicConfig, gaps bool) *topic {
	t := &topic{config: c, gaps: gaps, holds: map[string][]int64{}, epochs: map[uint64]int32{}}
	for range c.Partitions {
		t.parts = append(t.parts, newPartition())
	}
	return t
}

// now is the configuration as it is now.
func (t *topic) now() driver.TopicConfig {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.config
}

// checkShape is fault.Exists when the topic has other partitions than c.
func (t *topic) checkShape(c driver.TopicConfig) error {
	if have := len(t.parts); have != c.Partitions {
		return fmt.Errorf("topic %q has %d partitions; expected were %d: %w", c.Name, have, c.Partitions, fault.Exists)
	}
	return nil
}

// alter gives the topic the retention of c.
func (t *topic) alter(c driver.TopicConfig) error {
	if err := t.checkShape(c); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deleted {
		return fmt.Errorf("alter topic %q: %w", c.Name, fault.NotFound)
	}
	t.config = t.config.WithRetentionOf(c)
	t.retain()
	return nil
}

func (t *topic) delete() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deleted = true
	for _, p := range t.parts {
		p.wakeAll()
	}
}

func (t *topic) append(req *driver.AppendRequest) (int64, error) {
	p, id := t.parts[req.Partition], req.Producer
	if highest := t.epochs[id.ID]; id.ID != 0 && id.Epoch < highest {
		return 0, fmt.Errorf("append to topic %q: producer %x has epoch %d, a newer one has %d: %w", t.config.Name, id.ID, id.Epoch, highest, fault.Fenced)
	}
	if first, known, err := p.admit(req.Producer); known || err != nil {
		if err != nil {
			return 0, fmt.Errorf("append to topic %q partition %d: %w", t.config.Name, req.Partition, err)
		}
		t.epochs[id.ID] = id.Epoch
		return first, nil
	}
	if t.sealed {
		return 0, fmt.Errorf("append to topic %q: it is %w and takes no more records", t.config.Name, fault.Sealed)
	}
	now := time.Now().UnixMilli()
	from := len(p.records)
	first := p.store(req, now)
	if id.ID != 0 {
		t.epochs[id.ID] = id.Epoch
	}
	for i := range p.records[from:] {
		r := &p.records[from+i]
		q := queued{req.Partition, r.Offset, recordBytes(r), now}
		t.queue = append(t.queue, q)
		t.bytes += q.bytes
	}
	if t.gaps {
		p.next += first % 3
	}
	p.wakeAll()
	t.retain()
	return first, nil
}

// retain drops the oldest records while they are too many or too old, and not held.
func (t *topic) retain() {
	if len(t.queue) == 0 {
		return
	}
	now := time.Now().UnixMilli()
	for len(t.queue) > 0 {
		q := t.queue[0]
		p := t.parts[q.partition]
		if trimmed := q.offset < p.first; !trimmed {
			tooMany := t.config.RetentionBytes > 0 && t.bytes > t.config.RetentionBytes
			tooOld := t.config.RetentionAgeMillis > 0 && now-q.millis > t.config.RetentionAgeMillis
			if !tooMany && !tooOld || t.held(q.partition, q.offset) && !t.config.RetentionForce {
				return
			}
			p.trim(q.offset + 1)
		}
		t.queue = t.queue[1:]
		t.bytes -= q.bytes
	}
}

func (t *topic) held(partition int, offset int64) bool {
	for _, offsets := range t.holds {
		if at := offsets[partition]; at >= 0 && at <= offset {
			return true
		}
	}
	return false
}
