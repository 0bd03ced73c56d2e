package pulsarlog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
)

// Several processes trim a partition, and a request of one may arrive long after it was sent. The broker
// can't compare before it sets, so nothing that counts is ever overwritten: each trim adds a property
// that names its offset, and the highest of them is where the partition begins. Only what is lower than
// one that is stored is removed.

// trimPrefix of a property of the topic is followed by the offset that a partition was trimmed to.
func trimPrefix(partition int) string { return ownPrefix + "first." + strconv.Itoa(partition) + "." }

func trimProperty(partition int, offset int64) string {
	return trimPrefix(partition) + strconv.FormatInt(offset, 10)
}

// trimmed is the highest offset that a partition was trimmed to, 0 for never, and the properties that
// name lower ones.
func trimmed(m metadata, partition int) (first int64, lower []string, err error) {
	highest, prefix := "", trimPrefix(partition)
	for name := range m.Properties {
		offset, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		at, err := strconv.ParseInt(offset, 10, 64)
		if err != nil || at < 0 || trimProperty(partition, at) != name {
			return 0, nil, fmt.Errorf("property %.80q names no offset: %w", name, fault.Corrupt)
		}
		if at > first {
			first, name, highest = at, highest, name
		}
		if name != "" {
			lower = append(lower, name)
		}
	}
	return first, lower, nil
}

// trim stores the new first offset and lets the broker free what lies below it.
func (p *partition) trim(ctx context.Context, before int64) error {
	b, err := p.bounds(ctx)
	if err != nil {
		return err
	}
	before = min(before, b.Next)
	if before <= b.First {
		return nil
	}
	if err := p.admin().setProperties(ctx, p.topic.config.Name, map[string]string{trimProperty(p.number, before): "1"}); err != nil {
		return p.fail("trim", err)
	}
	p.readers.forget(before)
	if err := p.release(ctx, before); err != nil && ctx.Err() == nil {
		p.topic.log.config.Logger.Warn("trimmed records still take space", "topic", p.topic.config.Name, "partition", p.number, "error", err)
	}
	return nil
}

// release lets the broker free what lies below an offset. The last process to move the subscription looks
// whether another one has trimmed further, so it doesn't stay behind.
func (p *partition) release(ctx context.Context, before int64) error {
	for {
		// The entry that holds the offset stays: its first records may be below, its last are not.
		ledger, entry := unpack(before)
		path := p.admin().topicPath(p.name, "/subscription/"+subscription+"/resetcursor")
		if err := p.admin().send(ctx, http.MethodPost, path, position{Ledger: ledger, Entry: entry, Partition: p.number}); err != nil {
			return err
		}
		m, err := p.admin().metadata(ctx, p.topic.config.Name)
		if err != nil {
			return err
		}
		first, lower, err := trimmed(m, p.number)
		if err != nil {
			return err
		}
		if first > before {
			before = first
			continue
		}
		for _, name := range lower {
			if err := p.admin().removeProperty(ctx, p.topic.config.Name, name); err != nil && !errors.Is(err, fault.NotFound) {
				return err
			}
		}
		return nil
	}
}

// removeProperty takes a property of a partitioned topic away, if it is there.
func (a *admin) removeProperty(ctx context.Context, name, property string) error {
	return a.send(ctx, http.MethodDelete, a.topicPath(name, "/properties?key="+url.QueryEscape(property)), nil)
}
