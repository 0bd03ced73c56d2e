package pulsarlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// retainEvery is how often a process that has a topic open applies its retention, besides each time
// that a group tells what it needs. It is less than the minute in which a new retention is followed.
const retainEvery = 30 * time.Second

// tend applies retention as long as the topic is open, whether it has groups or not: Pulsar's own would
// not know what they hold. The first time is at once, for programs that never run long.
func (t *topic) tend(ctx context.Context) {
	failing := false
	for wait := time.Duration(0); ; wait = t.log.retainEvery + rand.N(t.log.retainEvery/4) { //nolint:gosec // spreads the load, no secret
		if c := t.kept.Load(); wait == 0 && c.RetentionBytes == 0 && c.RetentionAgeMillis == 0 {
			continue // as read when the topic was opened
		}
		if pause(ctx, wait) != nil {
			return
		}
		err := t.retain(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			t.log.config.Logger.Warn("retention can't be applied, and is tried again", "topic", t.config.Name, "error", err)
		}
		failing = err != nil
	}
}

// retain applies the retention that the topic has now. It begins with any partition, so that each gets
// its turn where the time does not suffice for all.
func (t *topic) retain(ctx context.Context) error {
	m, err := t.log.admin.metadata(ctx, t.config.Name)
	if err != nil {
		return fmt.Errorf("retention of topic %q: %w", t.config.Name, err)
	}
	c := t.follow(m)
	if c.RetentionBytes == 0 && c.RetentionAgeMillis == 0 {
		return nil
	}
	first := rand.N(len(t.parts)) //nolint:gosec // no secret
	for i := range t.parts {
		if err := t.parts[(first+i)%len(t.parts)].retain(ctx, c, m); err != nil {
			return err
		}
	}
	return nil
}

// retain trims what is too much or too old and not held, in whole ledgers and entries.
func (p *partition) retain(ctx context.Context, c driver.TopicConfig, m metadata) error {
	b, s, err := p.boundsIn(ctx, m)
	if err != nil || b.First >= b.Next {
		return err
	}
	var cut int64
	if c.RetentionAgeMillis > 0 {
		if cut, err = p.offsetWithin(ctx, b, time.Now().UnixMilli()-c.RetentionAgeMillis); err != nil {
			return err
		}
	}
	if c.RetentionBytes > 0 {
		share := max(1, c.RetentionBytes/int64(c.Partitions))
		var kept int64
		for i := len(s.Ledgers) - 1; i >= 0; i-- { // the newest ledger is still written
			l := s.Ledgers[i]
			if kept += l.Size; kept > share && i < len(s.Ledgers)-1 && l.Entries > 0 {
				end, err := after(l.ID, l.Entries-1)
				if err != nil {
					return p.fail("retention of", err)
				}
				cut = max(cut, end)
				break
			}
		}
	}
	if cut <= b.First {
		return nil
	}
	if m, err = p.admin().metadata(ctx, c.Name); err != nil { // a group may have been sent back meanwhile
		return p.fail("retention of", err)
	}
	held, err := heldBy(m, p.number)
	if err != nil {
		return p.fail("retention of", err)
	}
	if held >= 0 && cut > held {
		if c.RetentionForce {
			p.topic.log.config.Logger.Warn("retention drops records that a group has not processed", "topic", c.Name, "partition", p.number, "needed", held, "first", cut)
		} else {
			cut = held
		}
	}
	if cut <= b.First {
		return nil
	}
	return p.trim(ctx, cut)
}

// holdsIn are the holds of a topic of so many partitions, by name; fault.Corrupt, beside the others, for a damaged one.
func holdsIn(m metadata, partitions int) (holds map[string][]int64, damaged error) {
	holds = map[string][]int64{}
	for property, value := range m.Properties {
		name, ok := strings.CutPrefix(property, holdPrefix)
		if !ok {
			continue
		}
		var offsets []int64
		if err := json.Unmarshal([]byte(value), &offsets); err != nil || len(offsets) != partitions {
			damaged = errors.Join(damaged, fmt.Errorf("property %s is %.40q; expected %d offsets: %w", property, value, partitions, fault.Corrupt))
			continue
		}
		holds[name] = offsets
	}
	return holds, damaged
}

// heldBy is the lowest offset that a hold names for a partition; -1: none does.
func heldBy(m metadata, partition int) (int64, error) {
	lowest := int64(-1)
	for name, value := range m.Properties {
		if !strings.HasPrefix(name, holdPrefix) {
			continue
		}
		var offsets []int64
		if err := json.Unmarshal([]byte(value), &offsets); err != nil || partition >= len(offsets) {
			return 0, fmt.Errorf("property %s is %.40q: %w", name, value, fault.Corrupt)
		}
		if at := offsets[partition]; at >= 0 && (lowest < 0 || at < lowest) {
			lowest = at
		}
	}
	return lowest, nil
}
