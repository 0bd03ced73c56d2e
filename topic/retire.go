package topic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// How a storage topic goes that can deliver no more records: it is sealed and empty, and every group is
// past it. Its place in the definition stays, so that indexes and units never shift.
//
//  1. A group that holds something in it gets a hold in the next one. Then it is deleted in the log.
//  2. It is Retired, and Clearing: from here on its partitions are finished for every group.
//  3. Each group forgets its units.
//  4. It is not Clearing any more.
//
// Nothing has to be fenced: a sealed and empty storage topic stays so, and readers find nothing in it,
// retired or not.

// Left is the index of the oldest storage topic that is not retired.
func (d *Document) Left() int {
	i := 0
	for i < len(d.Storage) && d.Storage[i].Retired {
		i++
	}
	return i
}

// Clearing reports whether a retired storage topic may still have remains.
func (d *Document) Clearing() bool {
	return slices.ContainsFunc(d.Storage, func(s Storage) bool { return s.Clearing })
}

func newRetirement(topic string) *api.Retirement {
	return &api.Retirement{Topic: topic, Retired: []int{}, Kept: []api.KeptStorage{}}
}

// PlanRetirement says what Retire would do. It changes nothing.
func (c *Catalog) PlanRetirement(ctx context.Context, name string) (*api.Retirement, error) {
	doc, _, err := c.here(ctx, name, "")
	if err != nil {
		return nil, err
	}
	r := newRetirement(name)
	return r, c.judge(ctx, doc, doc.Left(), r)
}

// Retire retires the storage topics of a topic that can deliver no more records, from the oldest on. It
// first finishes an earlier retirement that a crash interrupted. ErrNotFound for an unknown topic,
// ErrConflict for one that was moved.
func (c *Catalog) Retire(ctx context.Context, name string) (*api.Retirement, error) {
	r, life := newRetirement(name), ""
	for gone := -1; ; {
		doc, version, err := c.here(ctx, name, life)
		if err == nil && doc.Left() < doc.Produce {
			doc, version, err = c.caughtUp(ctx, name, doc.Life, false)
		}
		if err != nil {
			return nil, err
		}
		life = doc.Life
		oldest := doc.Left()
		switch {
		case doc.Clearing():
			err = c.clearRetired(ctx, doc, version)
		case oldest >= doc.Produce:
			return r, nil
		default:
			var why string
			if why, err = c.needed(ctx, doc, oldest); err == nil && why != "" {
				r.Kept = append(r.Kept, api.KeptStorage{Index: oldest, Why: why})
				return r, c.judge(ctx, doc, oldest+1, r)
			}
			if errors.Is(err, fault.NotFound) && gone != oldest { // another process is just deleting it
				gone = oldest
				continue
			}
			if err == nil {
				err = c.retireOldest(ctx, doc, version)
			}
			if err == nil {
				r.Retired = append(r.Retired, oldest)
			}
		}
		if err != nil && !errors.Is(err, fault.Conflict) {
			return nil, err
		}
	}
}

// retireOldest removes the oldest storage topic, which is not needed, and notes that.
func (c *Catalog) retireOldest(ctx context.Context, doc *Document, version registry.Version) error {
	oldest := doc.Left()
	if err := c.passOn(ctx, doc, oldest); err != nil {
		return err
	}
	if err := c.log.DeleteTopic(ctx, doc.Storage[oldest].Name); err != nil && !errors.Is(err, fault.NotFound) {
		return err
	}
	doc.retire(oldest)
	err := c.store(ctx, doc, version)
	if errors.Is(err, fault.Conflict) { // a process that has missed it may have noted that
		if now, _, err := c.here(ctx, doc.Name, doc.Life); err == nil && now.Left() > oldest {
			return nil
		}
	}
	return err
}

// passOn gives each group that holds something in a storage topic, and that the registry has forgotten, a hold in the
// next one, unless it has one: without any hold nothing tells that it began before. A group that the registry knows
// holds by itself what it needs, and may have no member that would end a hold from here.
func (c *Catalog) passOn(ctx context.Context, doc *Document, storage int) error {
	from, err := c.openStorage(ctx, doc, storage)
	if err != nil {
		return err
	}
	to, err := c.openStorage(ctx, doc, storage+1)
	if err != nil {
		return closeAll(err, []*commitlog.Topic{from})
	}
	holds, err := from.Holds(ctx)
	var there map[string][]int64
	if err == nil {
		there, err = to.Holds(ctx)
	}
	for name, offsets := range holds {
		holding := slices.ContainsFunc(offsets, func(at int64) bool { return at >= 0 })
		if _, has := there[name]; has || !holding || err != nil || strings.Contains(name, ":") { // a mirror's has a colon
			continue
		}
		var known bool
		if known, err = c.knowsGroup(ctx, name); err == nil && !known {
			err = to.Hold(ctx, name, make([]int64, doc.Storage[storage+1].Partitions))
		}
	}
	return closeAll(err, []*commitlog.Topic{from, to})
}

func (c *Catalog) knowsGroup(ctx context.Context, name string) (bool, error) {
	g, err := protocol.NewGroup(c.reg, name)
	if err == nil {
		_, err = g.Meta(ctx)
	}
	if errors.Is(err, fault.NotFound) || errors.Is(err, fault.Corrupt) || errors.Is(err, fault.Invalid) {
		return false, nil
	}
	return err == nil, err
}

// Retire is RetireSpent by name; a dry run only says what it would do.
func (h *Handles) Retire(ctx context.Context, name string, dry bool) (*api.Retirement, error) {
	t, err := h.Current(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case dry:
		return h.catalog.PlanRetirement(ctx, name)
	}
	return h.catalog.RetireSpent(ctx, t)
}

// RetireSpent is Retire of an open topic. First it drops what the byte limit keeps in each storage
// topic, and the topic as a whole need not keep.
func (c *Catalog) RetireSpent(ctx context.Context, t *Topic) (*api.Retirement, error) {
	if err := c.spend(ctx, t); err != nil {
		return nil, err
	}
	r, err := c.Retire(ctx, t.Document().Name)
	if err != nil {
		return nil, err
	}
	return r, t.Refresh(ctx)
}

// spend drops the records of sealed storage topics when those after it hold as many bytes as the topic
// keeps: without that, each keeps so many for ever.
func (c *Catalog) spend(ctx context.Context, t *Topic) error {
	doc := t.Document()
	r, bytes := doc.Retention(), 0.0
	if r.Bytes == 0 || doc.Moved != nil {
		return nil
	}
	for i := len(doc.Storage) - 1; i >= doc.Left(); i-- {
		if bytes >= float64(r.Bytes) && i < doc.Produce {
			if err := c.Spend(ctx, doc.Name, doc.Life, i); err != nil {
				return err
			}
			continue
		}
		st, err := t.Storage(i)
		for p := 0; p < doc.Storage[i].Partitions && err == nil && bytes < float64(r.Bytes); p++ {
			var e Extent
			e, err = ExtentOf(ctx, st, p, r)
			bytes += e.Bytes
		}
		if err != nil && !t.IsRetired(ctx, i, err) {
			return err
		}
	}
	return nil
}

// IsRetired reports whether an error is due to a retired storage topic, of which this process may be
// the last to hear.
func (t *Topic) IsRetired(ctx context.Context, storage int, err error) bool {
	if errors.Is(err, ErrRetired) {
		return true
	}
	switch {
	case errors.Is(err, fault.NotFound):
		if _, _, err := t.catalog.caughtUp(ctx, t.name, t.Document().Life, false); err != nil {
			return false
		}
	case !errors.Is(err, fault.Closed):
		return false
	}
	return t.Refresh(ctx) == nil && storage < t.Document().Left()
}

// judge says for the sealed storage topics from one on what would become of them.
func (c *Catalog) judge(ctx context.Context, doc *Document, from int, r *api.Retirement) error {
	for i := from; i < doc.Produce; i++ {
		why, err := c.needed(ctx, doc, i)
		switch {
		case err != nil:
			return err
		case why == "" && len(r.Kept) > 0:
			why = fmt.Sprintf("storage topic %d goes first", r.Kept[0].Index)
			fallthrough
		case why != "":
			r.Kept = append(r.Kept, api.KeptStorage{Index: i, Why: why})
		default:
			r.Retired = append(r.Retired, i)
		}
	}
	return nil
}

// needed says why a sealed storage topic may not be retired; "": it may.
func (c *Catalog) needed(ctx context.Context, doc *Document, storage int) (why string, err error) {
	st, err := c.openStorage(ctx, doc, storage)
	if err != nil {
		return "", err
	}
	for p := 0; p < doc.Storage[storage].Partitions && err == nil && why == ""; p++ {
		why, err = recordsOf(ctx, st, p)
	}
	if err = errors.Join(err, st.Close()); err != nil || why != "" {
		return why, err
	}
	names, err := protocol.ListGroups(ctx, c.reg)
	for i := 0; i < len(names) && err == nil && why == ""; i++ {
		why, err = c.neededBy(ctx, doc, storage, names[i])
	}
	return why, err
}

// recordsOf says why a partition counts as having records; "": it has none.
func recordsOf(ctx context.Context, st *commitlog.Topic, partition int) (why string, err error) {
	b, err := st.Bounds(ctx, partition)
	if err != nil || b.First == b.Next && b.Sealed {
		return "", err
	}
	if !b.Sealed {
		return fmt.Sprintf("partition %d is not sealed in the log", partition), nil
	}
	for at := b.First; at < b.Next; { // a mark that a log keeps at its end is no record
		recs, next, err := st.Read(ctx, partition, at, nil, &commitlog.ReadOptions{MaxBytes: 1})
		switch {
		case errors.Is(err, fault.OutOfRange): // dropped just now
			return recordsOf(ctx, st, partition)
		case errors.Is(err, fault.Corrupt):
			return fmt.Sprintf("partition %d has damaged records from offset %d on", partition, at), nil
		case err != nil:
			return "", err
		case len(recs) > 0:
			return fmt.Sprintf("partition %d keeps records from offset %d on", partition, recs[0].Offset), nil
		case next == at:
			return "", fmt.Errorf("partition %d of storage topic %q ends at offset %d and can't be read from %d on: %w", partition, st.Config().Name, b.Next, at, fault.Unavailable)
		}
		at = next
	}
	return "", nil
}

// neededBy says that a group is not past an empty storage topic; "": it is.
func (c *Catalog) neededBy(ctx context.Context, doc *Document, storage int, name string) (why string, err error) {
	g, err := protocol.NewGroup(c.reg, name)
	if err != nil {
		return "", err
	}
	meta, err := g.Meta(ctx)
	if err == nil && meta.Topic == doc.Name {
		var st *protocol.State
		if st, err = g.Load(ctx, true); err == nil && st.Meta != nil && st.Meta.Topic == doc.Name {
			return doc.neededBy(storage, name, st), nil
		}
	}
	switch {
	case errors.Is(err, fault.NotFound): // deleted since it was listed
		return "", nil
	case errors.Is(err, fault.Corrupt), errors.Is(err, fault.Invalid):
		return fmt.Sprintf("group %q can't be read: %v", name, err), nil
	}
	return "", err
}

func (d *Document) neededBy(storage int, group string, st *protocol.State) (why string) {
	if sole, ok := protocol.ShardStorage(group, st.Meta.Layout); ok {
		if storage < sole {
			return ""
		}
		return fmt.Sprintf("a subscription delivers storage topic %d in group %q, or has until an hour ago", sole, group)
	}
	if st.Meta.Layout != "" { // and so are the numbers of its units
		return fmt.Sprintf("group %q has the layout %q, which is not known here", group, st.Meta.Layout)
	}
	for p := range d.Storage[storage].Partitions {
		n, end := d.Unit(storage, p), d.End(storage, p)
		if end == 0 || n >= len(st.Units) {
			continue
		}
		u, at := &st.Units[n], int64(-1)
		if pos := u.Checkpoint.Position(storage, p); pos != nil {
			at = pos.Next
		}
		switch {
		case at >= end && end > 0:
		case at >= 0:
			return fmt.Sprintf("group %q is at offset %d of partition %d, which ends at %d", group, at, p, end)
		case u.Owner.Member != "": // it may still be handling some
			return fmt.Sprintf("group %q has begun with partition %d, on %q, and stored no checkpoint yet", group, p, u.Owner.Member)
		}
	}
	return ""
}

// cameBack says that a retired storage topic has records: it was never retired, and the log did not show it when that
// was noted.
func cameBack(topic, storage string) string {
	return fmt.Sprintf("storage topic %q of topic %q is noted as retired, as the log did not have it; the log has it again, with records: they are kept, and no group reads them; produce them again from there", storage, topic)
}

// isCopy reports whether a mirror has made a storage topic.
func isCopy(c commitlog.TopicConfig) bool {
	card, err := DecodeCard(c.Name, c.Card)
	return err == nil && card != nil && card.From != nil
}

// mustBeEmpty is ErrCorrupt for a retired storage topic that came back with records. The copy of a mirror has those from
// before the retirement, which was at its source.
func (c *Catalog) mustBeEmpty(ctx context.Context, doc *Document, storage int) error {
	st, err := c.log.Topic(ctx, doc.Storage[storage].Name)
	if errors.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if isCopy(st.Config()) {
		return st.Close()
	}
	_, err = st.Seal(ctx) // nothing comes meanwhile
	for p := 0; p < st.Config().Partitions && err == nil; p++ {
		var why string
		if why, err = recordsOf(ctx, st, p); err == nil && why != "" {
			err = fmt.Errorf("%s: %w", cameBack(doc.Name, st.Config().Name), fault.Corrupt)
		}
	}
	if errors.Is(err, fault.NotFound) { // it was just deleted, and the log still showed it
		err = nil
	}
	return errors.Join(err, st.Close())
}

// clearRetired removes the remains of retired storage topics. It may be repeated, also by a process
// that was stopped for long: names of storage topics are never used again, and groups are changed only
// while the definition is that one.
func (c *Catalog) clearRetired(ctx context.Context, doc *Document, version registry.Version) error {
	left := doc.Left()
	for i := range doc.Storage {
		s := &doc.Storage[i]
		if !s.Clearing {
			continue
		}
		s.Clearing = false
		if err := c.mustBeEmpty(ctx, doc, i); err != nil {
			return err
		}
		if err := c.log.DeleteTopic(ctx, s.Name); err != nil && !errors.Is(err, fault.NotFound) {
			return err
		}
	}
	names, err := protocol.ListGroups(ctx, c.reg)
	if err != nil {
		return err
	}
	for _, name := range names {
		g, err := protocol.NewGroup(c.reg, name)
		if err == nil {
			err = g.Retire(ctx, doc.Name, doc.Unit(left, 0), registry.Check{Key: prefix + doc.Name, Version: version})
		}
		if errors.Is(err, fault.Corrupt) || errors.Is(err, fault.Invalid) { // damaged: its topic is unknown
			continue
		}
		if err != nil {
			return err
		}
	}
	return c.store(ctx, doc, version)
}
