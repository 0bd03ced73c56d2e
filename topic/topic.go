package topic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// Topic is an open composite topic. Its methods may be called concurrently.
//
// It follows the definition: producers learn that the topic was switched when an append is refused,
// consumers through Follow.
type Topic struct {
	catalog *Catalog
	name    string
	life    context.Context //nolint:containedctx // of the goroutines that Close joins
	end     context.CancelFunc
	keyless atomic.Uint64 // spreads records without a key

	view atomic.Pointer[view]
	gen  atomic.Pointer[generation]
	gone atomic.Bool

	mu     sync.Mutex // guards closed; held while view or gen is replaced, but over no call
	closed bool
	moves  sync.WaitGroup // goroutines that carry records past a switch
}

// view is a definition and the handles that go with it. It never changes.
type view struct {
	doc     *Document
	version registry.Version
	storage []*commitlog.Topic
}

// Open opens a topic to produce and consume. A switch that a crash interrupted is finished by the
// first producer that meets it.
func (c *Catalog) Open(ctx context.Context, name string) (*Topic, error) {
	t := &Topic{catalog: c, name: name}
	t.life, t.end = context.WithCancel(context.Background())
	v, err := t.look(ctx, &view{})
	if err != nil {
		t.end()
		return nil, err
	}
	t.view.Store(v)
	t.gen.Store(newGeneration(v))
	return t, nil
}

// look reads the definition and opens the storage topics that old has no handle of.
func (t *Topic) look(ctx context.Context, old *view) (*view, error) {
	life := ""
	if old.doc != nil {
		life = old.doc.Life
	}
	doc, version, err := t.catalog.ready(ctx, t.name, life)
	if err != nil {
		return nil, err
	}
	if version == old.version {
		return old, nil
	}
	if err := t.catalog.checkKept(old.doc, doc); err != nil {
		return nil, err
	}
	v := &view{doc: doc.visible(), version: version, storage: slices.Clone(old.storage)}
	for i := len(v.storage); i < len(v.doc.Storage); i++ {
		st, err := t.catalog.openStorage(ctx, v.doc, i)
		if err != nil {
			for _, opened := range v.storage[len(old.storage):] {
				err = errors.Join(err, opened.Close())
			}
			return nil, err
		}
		v.storage = append(v.storage, st)
	}
	return v, nil
}

// Refresh reads the definition anew. When it returns nil the view is at least as new as the
// definition was when Refresh began. ErrAnotherLife when the topic is gone and another one has its name.
func (t *Topic) Refresh(ctx context.Context) error {
	for {
		old := t.view.Load()
		v, err := t.look(ctx, old)
		if err != nil || v == old {
			t.noteGone(err)
			return err
		}
		adopted, err := t.adopt(old, v)
		if adopted {
			if g := t.gen.Load(); v.doc.Produce > g.storage {
				t.retire(g)
			}
			return nil
		}
		for _, st := range v.storage[len(old.storage):] {
			err = errors.Join(err, st.Close())
		}
		if err != nil {
			return err
		}
	} // somebody else was faster, and may have read an older definition: look again
}

// Gone says whether a store has said that the topic is deleted. It stays so: what may have its name now
// has to be opened.
func (t *Topic) Gone() bool { return t.gone.Load() }

// noteGone takes the error of a store.
func (t *Topic) noteGone(err error) {
	if err != nil && errors.Is(err, fault.NotFound) {
		t.gone.Store(true)
	}
}

// adopt makes v the view; false when another one took the place of old meanwhile.
func (t *Topic) adopt(old, v *view) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false, fmt.Errorf("topic %q: %w", t.name, fault.Closed)
	}
	return t.view.CompareAndSwap(old, v), nil
}

// Follow refreshes the topic whenever its definition changes, and calls changed after it and once at
// the beginning, until ctx ends. It finishes switches that somebody else died over. The logger hears
// when it can't, and when it can again. It ends before ctx, with ErrConflict when the topic was moved to
// another log, and with ErrAnotherLife when another one has its name.
func (t *Topic) Follow(ctx context.Context, logger *slog.Logger, changed func()) error {
	return follow(ctx, t, logger, changed)
}

// Document is the definition as it was last seen; it must not be changed.
func (t *Topic) Document() *Document { return t.view.Load().doc }

// Storage is the open storage topic i.
func (t *Topic) Storage(i int) (*commitlog.Topic, error) {
	storage := t.view.Load().storage
	if i < 0 || i >= len(storage) {
		return nil, fmt.Errorf("topic %q has storage topics 0 to %d; %d is out of range: %w", t.name, len(storage)-1, i, fault.Invalid)
	}
	return storage[i], nil
}

// Units is the number of units that a consumer group of this topic shares out, see Document.Units.
func (t *Topic) Units() int { return t.Document().Units() }

// Route returns where a record with this key is produced now: the storage topic under the produce
// pointer and a partition of it. Records without a key (nil) go round robin.
func (t *Topic) Route(key []byte) (storage, partition int) {
	g := t.gen.Load()
	return g.storage, t.route(g, key)
}

func (t *Topic) route(g *generation, key []byte) int {
	if key == nil {
		return int((t.keyless.Add(1) - 1) % uint64(g.shape.Partitions))
	}
	return g.routing.Partition(key)
}

// Close releases the handles. Records that wait for the end of a switch are refused.
func (t *Topic) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.end()
	var errs []error
	for _, s := range t.view.Load().storage {
		errs = append(errs, s.Close()) // which ends what is in flight, and that the goroutines wait for
	}
	t.moves.Wait()
	return errors.Join(errs...)
}
