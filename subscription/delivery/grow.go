package delivery

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/topic"
)

// A topic that has grown is followed by a turn. It begins when all shards have read the storage topic to its end
// that they deliver, which any member sees in their checkpoints. Those can be wrong, as a registry can go back:
// so a shard ends only when its own engine has read all, whatever was seen (watch).

const (
	// endEvery is how often a shard of a sealed storage topic looks whether it has read all.
	endEvery = 20 * time.Millisecond
	// growEvery is after how long at most a member that has read all looks whether the others have.
	growEvery = 2 * time.Second
)

// seen takes the topic as it is defined.
func (w *shards) seen(main *topic.Document) {
	w.main.Store(main)
	if _, grown := w.Definition.Grown(main); grown {
		w.seal.Do(func() {
			close(w.sealed)
			w.news()
		})
	}
}

// past says whether a checkpoint is at the end of all that a unit reads.
func (w *shards) past(c *registry.Checkpoint, in []dispatch.Input) bool {
	main := w.main.Load()
	for _, i := range in {
		at, end := c.Position(i.Storage, i.Partition), main.End(i.Storage, i.Partition)
		if at == nil || end < 0 || at.Next < end {
			return false
		}
	}
	return true
}

// watch ends an engine when its set is to end: at once, or when it has read all of a storage topic that is
// sealed. It returns when over is closed, or enough.
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
		d.read = map[*subscription.Shard]int64{}
	}
	d.read[d.shard] = time.Now().UnixMilli()
	d.mu.Unlock()
	d.news()
}

// hasRead says whether all shards that run here have read all of a storage topic that is sealed.
func (m *subscriber) hasRead(d *subscription.Document) bool {
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

// growOn begins the turn to the next storage topic, if all shards have read the one that is delivered. What
// fails is tried again.
func (c *Subscriptions) growOn(ctx context.Context, d *subscription.Document) {
	all, err := c.haveRead(ctx, d)
	if err == nil && all {
		_, err = c.Grow(ctx, d)
	}
	if err != nil && ctx.Err() == nil {
		c.logger.Warn("the turn to the next storage topic could not be begun; it is tried again", "subscription", d.Name, "error", err)
	}
}

// haveRead says whether the checkpoints of all shards are at the end of what they read.
func (c *Subscriptions) haveRead(ctx context.Context, d *subscription.Document) (bool, error) {
	t, err := c.topics.Current(ctx, d.Topic)
	if err != nil {
		return false, err
	}
	g, err := c.reg.Group(d.Group())
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
		at := (*registry.Position)(nil)
		if unit := topic.Shard(p, main.Storage[set.Storage].Partitions, set.Shards); unit < len(st.Units) {
			at = st.Units[unit].Checkpoint.Position(set.Storage, p)
		}
		end := main.End(set.Storage, p)
		if at != nil && at.Next >= end {
			continue
		}
		if b, err := log.Bounds(ctx, p); at != nil || err != nil || b.First < end { // one that is empty needs no checkpoint
			return false, err
		}
	}
	return true, nil
}
