package pulsarlog

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// retain trims what is too much or too old and not held, in whole ledgers and entries.
func (p *partition) retain(ctx context.Context) error {
	b, m, err := p.bounds(ctx)
	if err != nil {
		return err
	}
	c := p.topic.follow(m)
	var cut int64
	if c.RetentionAgeMillis > 0 {
		if cut, err = p.offsetAt(ctx, time.Now().UnixMilli()-c.RetentionAgeMillis); err != nil {
			return err
		}
	}
	if c.RetentionBytes > 0 {
		s, err := p.admin().stats(ctx, p.name)
		if err != nil {
			return p.fail("retention of", err)
		}
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
