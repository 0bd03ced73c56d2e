package topic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// What is in the log, the log says: which storage topics a topic ID has, which of them are sealed, and where they
// end. The definition is a copy of that. Every step (an addition, a switch, a retirement) is done in the log first
// and noted then, so a definition that is at odds with the log is an older one: a process died in between, or the
// registry went back. Any process that finds it brings it forward, and never the log back.

// caughtUp is here, once the definition says what the log says. quiet: the caller has just changed the log itself.
func (c *Catalog) caughtUp(ctx context.Context, name, life string, quiet bool) (*Document, registry.Version, error) {
	for {
		doc, version, err := c.here(ctx, name, life)
		if err != nil {
			return nil, "", err
		}
		now, err := c.bring(ctx, doc)
		if errors.Is(err, fault.NotFound) || errors.Is(err, fault.Closed) { // the topic may just be another one
			if _, since, gone := c.here(ctx, name, life); gone != nil || since != version {
				if err = gone; err == nil {
					continue
				}
			}
		}
		if err != nil || now == nil {
			return doc, version, err
		}
		if version, err = c.put(ctx, now, version); err == nil {
			if !quiet {
				c.tellForward(doc, now)
			}
			err = now.CheckHere()
			return now, version, err
		}
		if !errors.Is(err, fault.Conflict) {
			return nil, "", err
		}
	}
}

// CatchUp brings the definition of a topic forward to what the log has, and returns it.
func (c *Catalog) CatchUp(ctx context.Context, name string) (*Document, error) {
	doc, _, err := c.caughtUp(ctx, name, "", false)
	return doc, err
}

// bring returns what a definition is by the log; nil: it is that already.
func (c *Catalog) bring(ctx context.Context, doc *Document) (*Document, error) {
	now := *doc
	now.Storage = slices.Clone(doc.Storage)
	b := &bringing{c: c, doc: &now}
	err := errors.Join(b.run(ctx), b.close())
	if err != nil || !b.changed {
		return nil, err
	}
	return &now, nil
}

// bringing is one definition on its way forward.
type bringing struct {
	c       *Catalog
	doc     *Document
	open    []*commitlog.Topic // by storage topic, from the oldest that the log has; those before are nil
	known   int                // storage topics that the definition knew
	changed bool
}

func (b *bringing) close() (err error) {
	for _, st := range b.open {
		if st != nil {
			err = errors.Join(err, st.Close())
		}
	}
	return err
}

func (b *bringing) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{b.storage, b.behind, b.pointer, b.retention} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// storage opens what the log has of the life, appends to the definition what that does not know, and retires what
// is not there any more. Only the unbroken run up to the newest counts.
func (b *bringing) storage(ctx context.Context) error {
	d := b.doc
	b.known = len(d.Storage)
	b.open = make([]*commitlog.Topic, b.known)
	oldest := b.known
	for ; oldest > d.Left(); oldest-- {
		st, err := b.c.openStorage(ctx, d, oldest-1)
		if errors.Is(err, fault.NotFound) {
			break
		}
		if err != nil {
			return err
		}
		b.open[oldest-1] = st
	}
	for {
		i := len(d.Storage)
		st, err := b.c.log.Topic(ctx, StorageName(b.c.namespace, d.Name, d.Life, i))
		if errors.Is(err, fault.NotFound) && oldest == b.known && i == b.known {
			if oldest, err = b.jump(ctx); err != nil {
				return err
			}
			break
		}
		if errors.Is(err, fault.NotFound) {
			break
		}
		if err != nil {
			return err
		}
		b.open = append(b.open, st)
		card, err := DecodeCard(st.Config().Name, st.Config().Card)
		if err != nil {
			return err
		}
		if card != nil && card.Moved != nil { // it ends the list
			d.Moved, b.changed = card.Moved, true
			break
		}
		s := Storage{Name: st.Config().Name, Partitions: st.Config().Partitions, ID: st.ID()}
		if card != nil { // the log may have got partitions that are not ours
			s.Partitions = min(s.Partitions, card.Partitions[len(card.Partitions)-1])
		}
		s.K = factor(d.Storage[i-1], s.Partitions)
		d.Storage, b.changed = append(d.Storage, s), true
	}
	if oldest == d.Left() {
		return nil
	}
	return b.retire(ctx, oldest)
}

// jump appends what the newest card tells, when the log has nothing any more of what the definition knows, and returns
// the oldest storage topic that is there.
func (b *bringing) jump(ctx context.Context) (oldest int, _ error) {
	d := b.doc
	lives, err := b.c.lives(ctx, d.Name)
	if err != nil {
		return 0, err
	}
	all := lives[d.Life]
	if len(all) == 0 || all.newest().Card == "" {
		return 0, b.c.missing(ctx, d)
	}
	card, err := DecodeCard(all.newest().Name, all.newest().Card)
	if err != nil {
		return 0, err
	}
	now := b.c.ofCard(d.Name, d.Life, card, all)
	if len(now.Storage) <= len(d.Storage) {
		return 0, b.c.missing(ctx, d)
	}
	for i := len(d.Storage); i < len(now.Storage); i++ {
		now.Storage[i].Retired = false // that is noted below
		d.Storage = append(d.Storage, now.Storage[i])
		var st *commitlog.Topic
		if i >= now.Produce {
			if st, err = b.c.openStorage(ctx, d, i); err != nil {
				return 0, err
			}
			d.Storage[i].ID = st.ID()
		}
		b.open, b.changed = append(b.open, st), true
	}
	return now.Produce, nil
}

// retire notes that the storage topics before one are gone. They are looked for once more: some logs of several
// servers do not find for a moment what they have.
func (b *bringing) retire(ctx context.Context, oldest int) error {
	d := b.doc
	has, err := b.c.lives(ctx, d.Name)
	if err != nil {
		return err
	}
	for i := d.Left(); i < oldest; i++ {
		if _, there := has[d.Life][i]; there {
			return fmt.Errorf("storage topic %q of topic %q: the log lists it, and did not open it just now; try again: %w", d.Storage[i].Name, d.Name, fault.Unavailable)
		}
	}
	for i := range oldest {
		d.retire(i)
	}
	d.Produce, b.changed = max(d.Produce, oldest), true
	return nil
}

// retire notes that a storage topic is gone; something of it may be left.
func (d *Document) retire(i int) {
	if s := &d.Storage[i]; !s.Retired {
		s.Retired, s.Clearing, s.Ends, s.Spent = true, true, nil, false
	}
}

// behind seals what lies behind the pointer, if a process that came too late has made it again.
func (b *bringing) behind(ctx context.Context) error {
	for i := b.doc.Left(); i < b.doc.Produce; i++ {
		sealed, err := isSealed(ctx, b.open[i])
		if err == nil && !sealed {
			err = b.seal(ctx, i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pointer moves the pointer behind each sealed storage topic that has a next one, and not before one that has records.
func (b *bringing) pointer(ctx context.Context) error {
	d, began := b.doc, b.doc.Produce
	for i := len(d.Storage) - 1; i > d.Produce; i-- {
		used, err := isUsed(ctx, b.open[i])
		if err != nil {
			return err
		}
		if used {
			began = i
			break
		}
	}
	for d.Produce < len(d.Storage)-1 {
		sealed, err := isSealed(ctx, b.open[d.Produce])
		if err != nil {
			return err
		}
		if !sealed && d.Produce >= began {
			return nil
		}
		if err := b.seal(ctx, d.Produce); err != nil {
			return err
		}
		d.Produce++
	}
	return nil
}

// seal finishes a seal. A log that ends before what the definition says is older than that.
func (b *bringing) seal(ctx context.Context, i int) error {
	ends, err := b.open[i].Seal(ctx)
	if err != nil {
		return fmt.Errorf("seal storage topic %d of topic %q: %w", i, b.doc.Name, err)
	}
	for p, end := range b.doc.Storage[i].Ends {
		if ends[p] < end {
			return &OlderError{Topic: b.doc.Name, Storage: i, Partition: p, Known: end, End: ends[p], By: ByDefinition}
		}
	}
	b.doc.Storage[i].Ends, b.changed = ends, true
	return nil
}

// retention takes over what the log keeps, unless that is being changed. While nothing is produced to what the
// definition did not know, the newest that it knew counts: a change reaches that, and not what an addition which was
// cut short has left with the retention of before. Those behind the pointer may be spent.
func (b *bringing) retention(context.Context) error {
	d, last := b.doc, len(b.doc.Storage)-1
	if b.known > d.Produce {
		last = b.known - 1
	}
	r := retentionOf(b.open[last])
	differ := r != d.Retention()
	for _, st := range b.open[last:len(d.Storage)] {
		differ = differ || retentionOf(st) != r
	}
	if !d.Altering && differ {
		d.setRetention(r, nil)
		b.changed = true
	}
	return nil
}

func retentionOf(st *commitlog.Topic) Retention {
	c := st.Config()
	return Retention{c.RetentionBytes, c.RetentionAgeMillis, c.RetentionForce}
}

func isSealed(ctx context.Context, st *commitlog.Topic) (bool, error) {
	b, err := st.Bounds(ctx, 0)
	return b.Sealed, err
}

// isUsed reports whether a storage topic has, or had, records, or was sealed.
func isUsed(ctx context.Context, st *commitlog.Topic) (bool, error) {
	for p := range st.Config().Partitions {
		if b, err := st.Bounds(ctx, p); err != nil || b.Next > 0 || b.Sealed {
			return err == nil, err
		}
	}
	return false, nil
}

// lives is what the log has of a name: the storage topics of each topic ID, by their index.
func (c *Catalog) lives(ctx context.Context, name string) (map[string]storages, error) {
	all, err := c.log.Topics(ctx)
	if err != nil {
		return nil, err
	}
	prefix := strings.TrimSuffix(StorageName(c.namespace, name, "", 0), "0.")
	lives := map[string]storages{}
	for _, st := range all {
		rest, ok := strings.CutPrefix(st.Name, prefix)
		index, life, both := strings.Cut(rest, ".")
		i, err := strconv.Atoi(index)
		if !ok || !both || err != nil || strconv.Itoa(i) != index || i < 0 || !lifePattern.MatchString(life) {
			continue
		}
		if lives[life] == nil {
			lives[life] = storages{}
		}
		lives[life][i] = st
	}
	return lives, nil
}

// missing says why the log may not have the newest storage topic of a definition.
func (c *Catalog) missing(ctx context.Context, d *Document) error {
	lives, err := c.lives(ctx, d.Name)
	if err != nil {
		return err
	}
	if n := len(lives[d.Life]); n > 0 {
		return fmt.Errorf("topic %q: the log has %d of its storage topics, and not the newest, %q: it was put back to an earlier state than the registry, or this is another log: check the URLs; if both are right, put back a later copy of the log: %w",
			d.Name, n, d.Storage[len(d.Storage)-1].Name, fault.NotFound)
	}
	var others []string
	for life := range lives {
		if life != d.Life {
			others = append(others, life)
		}
	}
	why := "another program deleted it, or it was deleted and the registry went back to before that, or this is another log: check the URLs; if both are right, ringfence topic delete " + d.Name + " frees the name"
	if slices.Sort(others); len(others) > 0 {
		why = fmt.Sprintf("it has topic ID %s of that name, so the registry went back, or this is another log: check the URLs; if both are right, delete the topic, of which the log has nothing, and create it again to go on with what the log has", strings.Join(others, ", "))
	}
	return fmt.Errorf("topic %q: the log has nothing of it (topic ID %s): %s: %w", d.Name, d.Life, why, fault.NotFound)
}

// WithLogger is the catalog with a logger, which gets a warning when a definition is brought forward.
func (c *Catalog) WithLogger(logger *slog.Logger) *Catalog {
	told := *c
	told.logger = logger
	return &told
}

// tellForward says what a definition did not know.
func (c *Catalog) tellForward(was, now *Document) {
	if c.logger == nil {
		return
	}
	c.logger.Warn("the registry is behind the log: it went back, or a step was cut short; the definition of the topic was brought forward to what the log has",
		"topic", now.Name, "unknown", strings.Join(was.unknown(now), ", "))
}

// unknown lists what d does not know of a later definition.
func (d *Document) unknown(now *Document) (what []string) {
	for i := len(d.Storage); i < len(now.Storage); i++ {
		what = append(what, fmt.Sprintf("storage topic %d with %d partitions", i, now.Storage[i].Partitions))
	}
	for i := d.Left(); i < now.Left(); i++ {
		what = append(what, fmt.Sprintf("the retirement of storage topic %d", i))
	}
	if now.Produce > d.Produce {
		what = append(what, fmt.Sprintf("the switch from storage topic %d to %d", d.Produce, now.Produce))
	}
	for i := now.Left(); i < min(now.Produce, d.Produce); i++ {
		if !slices.Equal(d.Storage[i].Ends, now.Storage[i].Ends) {
			what = append(what, fmt.Sprintf("the ends of storage topic %d", i))
		}
	}
	if now.Retention() != d.Retention() {
		what = append(what, "the retention")
	}
	return what
}

// behind reports whether d knows less than an earlier reading of the definition did: the registry went back.
func (d *Document) behind(earlier *Document) bool {
	return earlier != nil && d.Moved == nil &&
		(len(d.Storage) < len(earlier.Storage) || d.Produce < earlier.Produce || d.Left() < earlier.Left())
}
