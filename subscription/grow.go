package subscription

import (
	"context"
	"slices"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/subscription/core"
	"github.com/ringfence/ringfence/subscription/shard"
	"github.com/ringfence/ringfence/topic"
)

// The topic has grown: the set delivers a sealed storage topic, and there is a next one. When all shards have
// read it, another set continues there. This is a reshard with two differences: other partitions, so the parents
// of each shard are others (core.Parents); and a shard ends only when it has read all, as no later set reads that.

// Grown returns the next storage topic to deliver; false: there is none yet, or the present one still grows.
func (d *Document) Grown(main *topic.Document) (storage int, ok bool) {
	at := d.Set().Storage
	if d.Gone(main) {
		return main.Left(), true
	}
	return at + 1, at+1 < len(main.Storage) && main.Storage[at].Ends != nil
}

// Gone reports whether the set's storage topic was retired. Until the set has its first member, an empty
// one may be.
func (d *Document) Gone(main *topic.Document) bool { return d.Set().Storage < main.Left() }

// Grow begins the reshard to the next storage topic, unless another is under way or d's set is no longer the
// active one. The caller knows that it has read all.
func (c *Catalog) Grow(ctx context.Context, d *Document) (*Document, error) {
	main, err := c.main(ctx, d.Topic)
	if err != nil {
		return nil, err
	}
	next, err := c.changeSets(ctx, d, func(now *Document) bool {
		storage, grown := now.Grown(main)
		if !grown || now.Turning() || now.Set().ID != d.Set().ID || len(now.Sets) >= maxSets {
			return false
		}
		now.Sets = append(now.Sets, now.nextSet(now.ShardsFor(main, storage), storage))
		return true
	})
	if err != nil {
		return nil, err
	}
	return c.Advance(ctx, next)
}

// ShardsFor returns how many shards are to deliver another storage topic: as many as now, or one for each
// partition when it is so now, within what the storage topic and the limits allow; a stored set may have more
// shards than the limits. There are more only where fewer could not read all partitions.
func (d *Document) ShardsFor(main *topic.Document, storage int) int {
	have, partitions := d.Set().Shards, main.Storage[storage].Partitions
	least := (partitions + MaxShare - 1) / MaxShare
	switch {
	case have == main.Storage[d.Set().Storage].Partitions && d.Limits.CheckShards(d.Name, partitions) == nil:
		return partitions
	case d.Limits.CheckShards(d.Name, have) != nil:
		have = d.Limits.Concurrency
	}
	return min(max(have, least), partitions)
}

// Follows reports whether a set continues for another one that has read all of its storage topic.
func (s *Set) Follows(before Set) bool { return s.Storage > before.Storage && s.Starts == nil }

// parentsOf says which shards of a set take over from which of the set before.
func parentsOf(main *topic.Document, before, next Set) *core.Parents {
	was, now := main.Storage[before.Storage], main.Storage[next.Storage]
	route := main.Router.For(main.Hash, now.Partitions, now.K)
	h := &core.Parents{
		Storage: next.Storage, After: make([][]int, next.Shards),
		Home: func(o core.Origin, key []byte) int {
			p := int(o.Partition)
			switch {
			case int(o.Storage) == next.Storage:
			case key != nil:
				p = route.Partition(key)
			}
			return topic.Shard(p%now.Partitions, now.Partitions, next.Shards)
		},
		Anew: next.Starts != nil, Shed: next.Shed && !slices.Contains(next.Starts, AsItWas),
	}
	for p := range now.Partitions {
		after := &h.After[topic.Shard(p, now.Partitions, next.Shards)]
		for _, q := range parents(main, before, next, p) {
			*after = append(*after, topic.Shard(q, was.Partitions, before.Shards))
		}
	}
	for i := range h.After {
		slices.Sort(h.After[i])
		h.After[i] = slices.Compact(h.After[i])
	}
	return h
}

// parents returns the partitions of the set before that can hold earlier records of a partition's keys.
func parents(main *topic.Document, before, next Set, partition int) (all []int) {
	at := topic.Parents{To: main.Storage[before.Storage].Partitions, Step: 1}
	switch before.Storage {
	case next.Storage:
		return []int{partition}
	case next.Storage - 1:
		at, _ = main.Parents(next.Storage, partition)
	}
	for q := at.From; q < at.To; q += at.Step {
		all = append(all, q)
	}
	return all
}

// A reshard follows the growth of a topic. It begins when all shards have read their storage topic to its end,
// which any member sees in their checkpoints. Those can be wrong, as a registry can go back: a shard ends only
// when its own engine has read all (watch).

const (
	// endEvery is how often a shard of a sealed storage topic checks whether it has read all.
	endEvery = 20 * time.Millisecond
	// growEvery is how often, at least, a member that has read all checks whether the others have.
	growEvery = 2 * time.Second
)

// seen applies a new definition of the topic.
func (w *shards) seen(main *topic.Document) {
	w.main.Store(main)
	if _, grown := w.Definition.Grown(main); grown {
		w.seal.Do(func() {
			close(w.sealed)
			w.news()
		})
	}
}

// past reports whether a checkpoint is at the end of all that a unit reads.
func (w *shards) past(c *protocol.Checkpoint, in []dispatch.Input) bool {
	main := w.main.Load()
	for _, i := range in {
		at, end := c.Position(i.Storage, i.Partition), main.End(i.Storage, i.Partition)
		if at == nil || end < 0 || at.Next < end {
			return false
		}
	}
	return true
}

// watch ends an engine when its set is to end: at once, or when it has read all of a sealed storage topic.
// It returns when over or enough is closed.
func (d *delivery) watch(e *dispatch.Engine, over <-chan struct{}, enough chan<- struct{}) {
	select {
	case <-over:
		return
	case <-d.enough:
		close(enough)
		return
	case <-d.sealed:
	case <-d.last:
	}
	look := time.NewTicker(endEvery)
	defer look.Stop()
	for !e.Ended() {
		select {
		case <-over:
			return
		case <-d.enough:
			close(enough)
			return
		case <-look.C:
		}
	}
	d.hasRead()
	select {
	case <-over:
	case <-d.enough:
		close(enough)
	case <-d.last:
		close(enough)
	}
}

// hasRead notes that the shard has read all.
func (d *delivery) hasRead() {
	d.mu.Lock()
	if d.read == nil {
		d.read = map[*shard.Shard]int64{}
	}
	d.read[d.shard] = time.Now().UnixMilli()
	d.mu.Unlock()
	d.news()
}

// hasRead reports whether all shards that run here have read all of a sealed storage topic.
func (m *subscriber) hasRead(d *Document) bool {
	m.mu.Lock()
	set := m.sets[d.Set().ID]
	m.mu.Unlock()
	if set == nil || !isClosed(set.of.sealed) {
		return false
	}
	if d.Gone(set.of.main.Load()) {
		return true
	}
	set.of.mu.Lock()
	defer set.of.mu.Unlock()
	return len(set.of.read) > 0 && len(set.of.read) == len(set.of.runs)
}

// growOn begins the reshard to the next storage topic, if all shards have read the present one. A failure
// is tried again.
func (c *Subscriptions) growOn(ctx context.Context, d *Document) {
	all, err := c.haveRead(ctx, d)
	if err == nil && all {
		_, err = c.Grow(ctx, d)
	}
	if err != nil && ctx.Err() == nil {
		c.logger.Warn("the reshard to the next storage topic could not be begun; it is tried again", "subscription", d.Name, "error", err)
	}
}

// haveRead reports whether the checkpoints of all shards are at the end of what they read.
func (c *Subscriptions) haveRead(ctx context.Context, d *Document) (bool, error) {
	t, err := c.topics.Current(ctx, d.Topic)
	if err != nil {
		return false, err
	}
	g, err := protocol.NewGroup(c.reg, d.Group())
	if err != nil {
		return false, err
	}
	set, main := d.Set(), t.Document()
	if d.Gone(main) {
		return true, nil
	}
	st, err := g.Load(ctx, true)
	if err != nil || st.Meta == nil {
		return false, err
	}
	log, err := t.Storage(set.Storage)
	if err != nil {
		return false, err
	}
	for p := range main.Storage[set.Storage].Partitions {
		at := (*protocol.Position)(nil)
		if unit := topic.Shard(p, main.Storage[set.Storage].Partitions, set.Shards); unit < len(st.Units) {
			at = st.Units[unit].Checkpoint.Position(set.Storage, p)
		}
		end := main.End(set.Storage, p)
		if at != nil && at.Next >= end {
			continue
		}
		if b, err := log.Bounds(ctx, p); at != nil || err != nil || b.First < end { // an empty partition needs no checkpoint
			return false, err
		}
	}
	return true, nil
}
