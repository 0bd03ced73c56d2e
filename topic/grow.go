package topic

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// How a topic grows. AddStorage appends a storage topic; it changes nothing for producers. Switch
// lets new records go to the next storage topic, in steps. Any process can go on from the
// definition that each step leaves:
//
//  1. Switching is set: a switch is wanted.
//  2. The storage topic under the pointer is sealed. From here on no process can append to it,
//     not even one that was stopped and has never heard of the switch.
//  3. Its ends are stored, the pointer moves on and Switching is cleared, in one write.
//
// A producer that is refused between 2 and 3 does step 3 itself, see Topic.

// AddStorage adds a storage topic of that many partitions to a topic, behind the others, and
// returns the new definition. It first finishes an earlier addition that a crash interrupted; with
// as many partitions, that is the one asked for. ErrNotFound for an unknown topic.
func (c *Catalog) AddStorage(ctx context.Context, name string, partitions int) (*Document, error) {
	if err := checkPartitions(name, partitions); err != nil {
		return nil, err
	}
	life := ""
	for ours := 0; ; { // index of the one asked for, once it is or may be stored
		doc, version, err := c.public(ctx, name, life)
		if err != nil {
			return nil, err
		}
		life = doc.Life
		last := len(doc.Storage) - 1
		switch {
		case ours > 0 && ours <= last && doc.Storage[ours].Partitions == partitions && !doc.Storage[ours].Creating:
			return doc.visible(), nil
		case doc.Storage[last].Creating:
			if doc.Storage[last].Partitions == partitions {
				ours = last
			}
			err = c.finishAdd(ctx, doc, version)
		default:
			doc.Storage = append(doc.Storage, Storage{
				Name: StorageName(c.namespace, name, life, last+1), Partitions: partitions,
				K: factor(doc.Storage[last], partitions), Creating: true,
			})
			if err = c.store(ctx, doc, version); err == nil || errors.Is(err, fault.Unknown) {
				ours = last + 1
			}
		}
		if err != nil && !errors.Is(err, fault.Conflict) {
			return nil, err
		}
	}
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

// finishAdd makes the last storage topic of a definition.
func (c *Catalog) finishAdd(ctx context.Context, doc *Document, version registry.Version) error {
	last := len(doc.Storage) - 1
	err := c.log.CreateTopic(ctx, doc.storageConfig(last))
	if errors.Is(err, fault.Exists) {
		name := doc.Storage[last].Name
		doc.Storage = doc.Storage[:last]
		return errors.Join(fmt.Errorf("topic %q: the log holds a topic %q of another shape already; delete that first: %w", doc.Name, name, err),
			c.store(ctx, doc, version))
	}
	if err == nil {
		err = c.identify(ctx, doc, last)
	}
	if err != nil {
		return c.unlessEnded(ctx, doc, last, err)
	}
	doc.Storage[last].Creating = false
	return c.storeMade(ctx, doc, version, last)
}

// Switch moves the produce pointer from its present place to the next storage topic and returns the
// new definition. It joins a switch that a crash interrupted, or that another process does at the
// same time. ErrConflict when there is no next storage topic: the pointer stays at the last.
func (c *Catalog) Switch(ctx context.Context, name string) (*Document, error) {
	life := ""
	for from := -1; ; {
		doc, version, err := c.public(ctx, name, life)
		if err != nil {
			return nil, err
		}
		if from < 0 {
			from, life = doc.Produce, doc.Life
		}
		switch last := len(doc.Storage) - 1; {
		case doc.Produce > from:
			return doc.visible(), nil
		case doc.Switching:
			err = c.finishSwitch(ctx, doc, version)
		case doc.Produce == last:
			return nil, fmt.Errorf("topic %q: producers are at its last storage topic, %d; add one first: %w", name, last, fault.Conflict)
		case doc.Storage[doc.Produce+1].Creating:
			err = c.finishAdd(ctx, doc, version)
		default:
			doc.Switching = true
			err = c.store(ctx, doc, version)
		}
		if err != nil && !errors.Is(err, fault.Conflict) {
			return nil, err
		}
	}
}

// finishSwitch does the rest of a switch.
func (c *Catalog) finishSwitch(ctx context.Context, doc *Document, version registry.Version) error {
	st, err := c.log.Topic(ctx, doc.Storage[doc.Produce].Name)
	if err != nil {
		_, _, gone := c.ready(ctx, doc.Name, doc.Life)
		return errors.Join(gone, err)
	}
	if err := doc.checkSame(doc.Produce, st); err != nil {
		return closeAll(err, []*commitlog.Topic{st})
	}
	st = st.First(doc.Storage[doc.Produce].Partitions)
	ends, err := st.Seal(ctx)
	if err = errors.Join(err, st.Close()); err != nil {
		return fmt.Errorf("seal storage topic %d of topic %q: %w", doc.Produce, doc.Name, err)
	}
	doc.Storage[doc.Produce].Ends = ends
	doc.Produce++
	doc.Switching = false
	return c.store(ctx, doc, version)
}

// errNoNext says that a storage topic is sealed and no other takes over.
var errNoNext = fmt.Errorf("no storage topic follows; add one, or produce where the topic was moved to: %w", fault.Sealed)

// past finishes the switch away from a storage topic that was found sealed, and returns the
// definition in which the pointer is past it.
func (c *Catalog) past(ctx context.Context, name, life string, sealed int) (*Document, error) {
	for {
		doc, version, err := c.here(ctx, name, life)
		switch {
		case err != nil:
			return nil, err
		case doc.Produce > sealed:
			return doc.visible(), nil
		case len(doc.visible().Storage) == sealed+1:
			return nil, fmt.Errorf("topic %q, storage topic %d: %w", name, sealed, errNoNext)
		}
		if err := c.finishSwitch(ctx, doc, version); err != nil && !errors.Is(err, fault.Conflict) {
			return nil, err
		}
	}
}

// Resume finishes what another process may have left half done in a topic of that ID: a switch, a
// change of its retention, or a retirement. Most times there is none.
func (c *Catalog) Resume(ctx context.Context, name, life string) error {
	doc, version, err := c.here(ctx, name, life)
	if err == nil && doc.Altering {
		if _, _, err = c.settleRetention(ctx, name, life); err == nil {
			doc, version, err = c.here(ctx, name, life)
		}
	}
	if err == nil && doc.Clearing() {
		if err = c.clearRetired(ctx, doc, version); errors.Is(err, fault.Conflict) {
			err = nil // another process goes on
		}
		if err == nil {
			doc, version, err = c.here(ctx, name, life)
		}
	}
	if err != nil || !doc.Switching {
		return err
	}
	if err := c.finishSwitch(ctx, doc, version); !errors.Is(err, fault.Conflict) {
		return err
	}
	return nil // another process has finished it; a later switch is not ours to do
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
