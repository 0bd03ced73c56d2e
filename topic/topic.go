package topic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// Topic is an open composite topic. Its methods may be called concurrently.
//
// It follows the definition: producers learn of a switch when an append is refused, consumers
// through Follow.
type Topic struct {
	catalog *Catalog
	name    string
	public  error           // of CheckPublic: it may not be produced to
	life    context.Context //nolint:containedctx // of the goroutines that Close joins
	end     context.CancelFunc
	keyless atomic.Uint64 // spreads records without a key

	view atomic.Pointer[view]
	gen  atomic.Pointer[generation]
	gone atomic.Bool

	mu      sync.Mutex // guards closed and retired; held while view or gen is replaced, but over no call
	closed  bool
	retired map[int]*commitlog.Topic // handles no longer in the view, by storage topic
	moves   sync.WaitGroup           // goroutines that carry records past a switch
}

// view is a definition and its handles. It never changes.
type view struct {
	doc     *Document
	version registry.Version
	storage []*commitlog.Topic // nil where it is retired
}

// ErrRetired says that a storage topic is gone: all groups had finished it, and retention has dropped
// its records. It is fault.OutOfRange.
var ErrRetired = fmt.Errorf("it was retired, as all groups had finished it and no record was left: %w", fault.OutOfRange)

// Open opens a topic to produce and consume.
func (c *Catalog) Open(ctx context.Context, name string) (*Topic, error) {
	t := &Topic{catalog: c, name: name, retired: map[int]*commitlog.Topic{}}
	t.life, t.end = context.WithCancel(context.Background())
	v, _, err := t.look(ctx, &view{})
	if err != nil {
		t.end()
		return nil, err
	}
	t.public = v.doc.CheckPublic()
	t.view.Store(v)
	t.gen.Store(newGeneration(v))
	return t, nil
}

// look reads the definition and opens the storage topics that old has no handle of.
func (t *Topic) look(ctx context.Context, old *view) (_ *view, opened []*commitlog.Topic, _ error) {
	life := ""
	if old.doc != nil {
		life = old.doc.Life
	}
	for missing := registry.Version(""); ; {
		doc, version, err := t.catalog.ready(ctx, t.name, life)
		if err != nil {
			return nil, nil, err
		}
		if version == old.version {
			return old, nil, nil
		}
		if doc.behind(old.doc) {
			if doc, version, err = t.catalog.caughtUp(ctx, t.name, doc.Life, false); err != nil {
				return nil, nil, err
			}
		}
		if err := t.catalog.checkKept(old.doc, doc); err != nil {
			return nil, nil, err
		}
		v, opened, err := t.catalog.view(ctx, old, doc, version)
		if err == nil {
			return v, opened, nil
		}
		if err = closeAll(err, opened); !errors.Is(err, fault.NotFound) || version == missing {
			return nil, nil, err
		}
		missing = version // what is gone may have been retired
		if _, _, behind := t.catalog.caughtUp(ctx, t.name, doc.Life, false); behind != nil {
			return nil, nil, behind
		}
	}
}

// view opens what old has no handle of.
func (c *Catalog) view(ctx context.Context, old *view, doc *Document, version registry.Version) (_ *view, opened []*commitlog.Topic, _ error) {
	v := &view{doc: doc, version: version, storage: make([]*commitlog.Topic, len(doc.Storage))}
	for i := doc.Left(); i < len(doc.Storage); i++ {
		if i < len(old.storage) && old.storage[i] != nil {
			v.storage[i] = old.storage[i]
			continue
		}
		st, err := c.openStorage(ctx, doc, i)
		if err != nil {
			return nil, opened, err
		}
		v.storage[i], opened = st, append(opened, st)
	}
	return v, opened, nil
}

func closeAll(err error, handles []*commitlog.Topic) error {
	for _, st := range handles {
		err = errors.Join(err, st.Close())
	}
	return err
}

// Refresh reads the definition anew. When it returns nil the view is at least as new as the definition
// was when Refresh began. ErrAnotherLife when the topic is gone and another one has its name.
func (t *Topic) Refresh(ctx context.Context) error {
	for {
		old := t.view.Load()
		v, opened, err := t.look(ctx, old)
		if err != nil || v == old {
			t.noteGone(err)
			return err
		}
		adopted, err := t.adopt(old, v)
		if adopted {
			if g := t.gen.Load(); v.doc.Produce > g.storage {
				t.carryOn(g)
			}
			t.release()
			return nil
		}
		if err = closeAll(err, opened); err != nil {
			return err
		}
	} // another refresh was faster, and may have read an older definition: look again
}

// Gone reports that a store has said that the topic is deleted. It stays so: another topic of the name
// has to be opened.
func (t *Topic) Gone() bool { return t.gone.Load() }

// noteGone looks for a deletion in the error of a store.
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
	if !t.view.CompareAndSwap(old, v) {
		return false, nil
	}
	for i, st := range old.storage {
		if st != nil && (i >= len(v.storage) || v.storage[i] == nil) {
			t.retired[i] = st
		}
	}
	return true, nil
}

// release closes handles of retired storage topics, except one that a generation still sends to: messages
// in flight there have to be refused for the right reason, to be carried on.
func (t *Topic) release() {
	var over []*commitlog.Topic
	t.mu.Lock()
	for i, st := range t.retired {
		if i < t.gen.Load().storage {
			over = append(over, st)
			delete(t.retired, i)
		}
	}
	t.mu.Unlock()
	_ = closeAll(nil, over) // nothing of ours is in them
}

// Document returns the definition last seen; it must not be changed.
func (t *Topic) Document() *Document { return t.view.Load().doc }

// Unchanged holds as long as the stored definition is the one last seen.
func (t *Topic) Unchanged() registry.Check {
	return registry.Check{Key: prefix + t.name, Version: t.view.Load().version}
}

// Storage returns the open storage topic i. ErrRetired when it is gone.
func (t *Topic) Storage(i int) (*commitlog.Topic, error) {
	storage := t.view.Load().storage
	if i < 0 || i >= len(storage) {
		return nil, fmt.Errorf("topic %q has storage topics 0 to %d; %d is out of range: %w", t.name, len(storage)-1, i, fault.Invalid)
	}
	if storage[i] == nil {
		return nil, fmt.Errorf("topic %q, storage topic %d: %w", t.name, i, ErrRetired)
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
	var err error
	for _, s := range t.view.Load().storage {
		if s != nil {
			err = errors.Join(err, s.Close()) // ends what is in flight, for which the goroutines wait
		}
	}
	t.mu.Lock()
	handles := slices.Collect(maps.Values(t.retired))
	clear(t.retired)
	t.mu.Unlock()
	err = closeAll(err, handles)
	t.moves.Wait()
	return err
}
