package topic

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// How a topic grows. AddStorage makes another storage topic; it changes nothing for producers. Switch lets new
// records go to the next storage topic: it seals the one under the pointer, and from then on no process can append
// to that, not even one that was stopped and has never heard of the switch. Either is done in the log first, and then
// noted in the definition by any process that comes by (caughtUp), such as a producer that is refused.

// AddStorage adds a storage topic of that many partitions to a topic, behind the others, and returns the new
// definition. One of as many partitions that the log has, and the definition does not know, is the one asked for: an
// earlier addition was cut short. ErrNotFound for an unknown topic.
func (c *Catalog) AddStorage(ctx context.Context, name string, partitions int) (*Document, error) {
	if err := checkPartitions(name, partitions); err != nil {
		return nil, err
	}
	known, _, err := c.public(ctx, name, "")
	if err != nil {
		return nil, err
	}
	for own := len(known.Storage); ; { // index of the one asked for, unless another of another shape takes it
		doc, _, err := c.caughtUp(ctx, name, known.Life, false)
		if err != nil {
			return nil, err
		}
		for ; own < len(doc.Storage); own++ {
			if doc.Storage[own].Partitions == partitions {
				return doc, nil
			}
		}
		made := *doc
		made.Storage = append(slices.Clone(doc.Storage), Storage{Name: StorageName(c.namespace, name, doc.Life, own), Partitions: partitions})
		err = c.log.CreateTopic(ctx, made.storageConfig(own))
		if errors.Is(err, fault.Exists) { // made just now by another process
			continue
		}
		if err != nil {
			return nil, c.unlessEnded(ctx, &made, own, err)
		}
		doc, err = c.added(ctx, &made, own)
		switch {
		case err != nil && !errors.Is(err, fault.Unknown):
			return nil, errors.Join(err, c.clear(ctx, &made, own))
		case err != nil:
			return nil, err
		case doc.Storage[own].Retired: // this process was stopped for long, and others have used the name up
			if err := c.clear(ctx, &made, own); err != nil {
				return nil, err
			}
		case doc.Storage[own].Partitions == partitions:
			return doc, nil
		}
	}
}

// added notes a storage topic that was just made. It may have been made with the retention of before.
func (c *Catalog) added(ctx context.Context, made *Document, i int) (*Document, error) {
	now, _, err := c.here(ctx, made.Name, made.Life)
	if err == nil && now.Retention() != made.Retention() {
		made.setRetention(now.Retention(), nil)
		err = c.log.AlterTopic(ctx, made.storageConfig(i))
	}
	if err != nil {
		return nil, err
	}
	doc, _, err := c.caughtUp(ctx, made.Name, made.Life, true)
	return doc, err
}

func checkPartitions(name string, n int) error {
	if n < 1 || n > commitlog.MaxPartitions {
		return fmt.Errorf("topic %.40q: %d partitions; expected 1 to %d: %w", name, n, commitlog.MaxPartitions, fault.Invalid)
	}
	return nil
}

// factor is K of a storage topic that follows last: as often as the base of last goes into it; 1
// when it does not, and a base of its own begins.
func factor(last Storage, partitions int) int {
	if base := last.Partitions / last.K; partitions%base == 0 {
		return partitions / base
	}
	return 1
}

// Switch moves the produce pointer from its present place to the next storage topic and returns the
// new definition. It joins a switch that a crash interrupted, or that another process does at the
// same time. ErrConflict when there is no next storage topic: the pointer stays at the last.
func (c *Catalog) Switch(ctx context.Context, name string) (*Document, error) {
	known, _, err := c.public(ctx, name, "")
	if err != nil {
		return nil, err
	}
	from, life := known.Produce, known.Life
	doc, _, err := c.caughtUp(ctx, name, life, false)
	switch {
	case err != nil || doc.Produce > from:
		return doc, err
	case from == len(doc.Storage)-1:
		return nil, fmt.Errorf("topic %q: producers are at its last storage topic, %d; add one first: %w", name, from, fault.Conflict)
	}
	st, err := c.openStorage(ctx, doc, from)
	if err == nil {
		_, err = st.Seal(ctx)
		err = errors.Join(err, st.Close())
	}
	if err != nil && !errors.Is(err, fault.NotFound) { // retired meanwhile
		return nil, fmt.Errorf("seal storage topic %d of topic %q: %w", from, name, err)
	}
	doc, _, err = c.caughtUp(ctx, name, life, true)
	return doc, err
}

// errNoNext says that a storage topic is sealed and no other takes over.
var errNoNext = fmt.Errorf("no storage topic follows; add one, or produce where the topic was moved to: %w", fault.Sealed)

// past makes sure that the pointer is past a storage topic that was found sealed, or gone.
func (c *Catalog) past(ctx context.Context, name, life string, sealed int) error {
	doc, _, err := c.here(ctx, name, life)
	if err == nil && doc.Produce <= sealed {
		doc, _, err = c.caughtUp(ctx, name, life, len(doc.Storage) > sealed+1) // a switch just now is no news
	}
	if err == nil && doc.Produce <= sealed {
		err = fmt.Errorf("topic %q, storage topic %d: %w", name, sealed, errNoNext)
	}
	return err
}

// Resume finishes what another process may have left half done in a topic of that ID: a switch, a
// change of its retention, or a retirement. Most times there is none.
func (c *Catalog) Resume(ctx context.Context, name, life string) error {
	doc, version, err := c.caughtUp(ctx, name, life, false)
	if err == nil && doc.Altering {
		if _, _, err = c.settleRetention(ctx, name, life); err == nil {
			doc, version, err = c.here(ctx, name, life)
		}
	}
	if err == nil && doc.Clearing() {
		if err = c.clearRetired(ctx, doc, version); errors.Is(err, fault.Conflict) {
			err = nil // another process goes on
		}
	}
	return err
}

// here is ready, for a topic that was not moved to another log.
func (c *Catalog) here(ctx context.Context, name, life string) (*Document, registry.Version, error) {
	doc, version, err := c.ready(ctx, name, life)
	if err == nil {
		err = doc.CheckHere()
	}
	return doc, version, err
}

// public is here, for a topic without an owner.
func (c *Catalog) public(ctx context.Context, name, life string) (*Document, registry.Version, error) {
	doc, version, err := c.here(ctx, name, life)
	if err == nil {
		err = doc.CheckPublic()
	}
	return doc, version, err
}

// ready is load, for a topic of that ID that is neither half created nor half deleted; "" is any ID.
func (c *Catalog) ready(ctx context.Context, name, life string) (*Document, registry.Version, error) {
	if err := CheckName(name); err != nil {
		return nil, "", err
	}
	doc, version, err := c.load(ctx, name)
	if err == nil {
		err = doc.inLife(life)
	}
	if err == nil && doc.State != Ready {
		err = fmt.Errorf("topic %q is half %s; create or delete it again to finish: %w", name, doc.State, fault.NotFound)
	}
	return doc, version, err
}
