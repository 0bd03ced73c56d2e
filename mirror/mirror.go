// Package mirror copies a composite topic from one commit log to another while both are in use:
// the way out of one machine for a running system.
//
// Each partition is copied in order into the partition of the same number. A record counts as copied
// when it was read from the target in its place. The target's registry keeps pairs of offsets, as notes:
// up to this one of the source the target has the same up to that one. An old note is still true, so a
// registry that goes back costs reading only. By the pairs CutOver carries the progress of consumer
// groups over.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// Side is one end of a mirror.
type Side struct {
	Log      *commitlog.Log
	Registry *registry.Registry
	// Namespace that the registry was opened with.
	Namespace string
	// Name of the log, its URL for instance, without a password. The source holds under the name of
	// the target what is not copied yet: mirrors of a topic to several targets need several names.
	Name string
}

// Config is what a Mirror is made of.
type Config struct {
	From, To Side
	// SameRegistry says that both sides have one registry: then the topic's definition and its
	// groups stay where they are, and change at the cut-over.
	SameRegistry bool
	Topic        string
	// Once ends Run when everything was copied that was there at its start. Without it Run follows
	// the source until its context ends.
	Once bool
	// BatchBytes is about how much one append carries. 0: 256 KiB.
	BatchBytes int
	Logger     *slog.Logger // nil: discard
}

const (
	defaultBatchBytes = 256 << 10
	// batchRecords is the most that every log takes in one append.
	batchRecords = 1000
	// window is how many appends of a partition are on their way at once: as many as a log
	// remembers the places of.
	window = commitlog.ProducerWindow
	// retryPause is between two tries when a store does not answer.
	retryPause = 500 * time.Millisecond
	// lookPause is between two looks at the definition of the source.
	lookPause = time.Second
)

// Mirror copies one topic. Run or CutOver is called once.
type Mirror struct {
	c        Config
	lives    lives // once it has begun
	source   *topic.Catalog
	target   *topic.Catalog
	records  atomic.Int64
	bytes    atomic.Int64
	pending  atomic.Int64
	problems troubles
}

// Progress is how far a mirror got.
type Progress struct {
	Records int64 // copied by this process
	Bytes   int64 // of keys, values and headers
	// Behind is how many offsets the source was ahead when each partition was last looked at; on a
	// log with gaps it is more than the records.
	Behind int64
}

// New makes a mirror. It starts nothing.
func New(c Config) (*Mirror, error) {
	var errs []error
	if err := topic.CheckName(c.Topic); err != nil {
		errs = append(errs, err)
	}
	if c.From.Log == nil || c.From.Registry == nil || c.To.Log == nil || c.To.Registry == nil {
		errs = append(errs, fmt.Errorf("mirror of topic %q: a side without log or registry: %w", c.Topic, fault.Invalid))
	}
	if c.BatchBytes < 0 || c.BatchBytes > commitlog.MaxBatchBytes/2 {
		errs = append(errs, fmt.Errorf("mirror of topic %q: batches of %d bytes; expected 0 (%d) to %d: %w", c.Topic, c.BatchBytes, defaultBatchBytes, commitlog.MaxBatchBytes/2, fault.Invalid))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if c.BatchBytes == 0 {
		c.BatchBytes = defaultBatchBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Mirror{
		c:        c,
		source:   topic.NewCatalog(c.From.Log, c.From.Registry, c.From.Namespace),
		target:   topic.NewCatalog(c.To.Log, c.To.Registry, c.To.Namespace),
		problems: troubles{logger: c.Logger, topic: c.Topic},
	}, nil
}

// Progress may be called at any time.
func (m *Mirror) Progress() Progress {
	return Progress{Records: m.records.Load(), Bytes: m.bytes.Load(), Behind: m.pending.Load()}
}

// Run copies until ctx ends (its error), or with Config.Once until what was there at the start is
// copied (nil). Stores that do not answer are waited for.
//
// Errors: ErrNotFound for an unknown topic; ErrExists when the target has a topic of another shape
// under a name that is needed, or one with records of its own; ErrConflict when another mirror of the topic took over, or the
// cut-over was done; ErrOutOfRange when the source dropped records that were not copied yet.
func (m *Mirror) Run(ctx context.Context) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	if err := m.checkOpen(ctx); err != nil {
		return err
	}
	doc, err := m.sourceNow(ctx)
	if err != nil {
		return err
	}
	return m.copy(ctx, doc, m.c.Once)
}

// copyTries bounds how often a copy is begun anew.
const copyTries = 3

// copy is copyAll, and begins a copy anew in which two mirrors have mixed records of the source, as they may after
// a registry went back. Where the target has records that the source has not, it ends with the difference.
func (m *Mirror) copy(ctx context.Context, doc *topic.Document, once bool) error {
	for try := 1; ; try++ {
		err := m.copyAll(ctx, doc, once)
		var differs *differError
		if !errors.As(err, &differs) || !differs.mixed || try == copyTries {
			return err
		}
		if err := m.removeCopy(ctx, doc, differs); err != nil {
			return err
		}
	}
}

// removeCopy removes the copy of a storage topic and what is noted of it. The source still has all that a group needs.
func (m *Mirror) removeCopy(ctx context.Context, doc *topic.Document, why *differError) error {
	if m.retired(ctx, why.storage, fault.NotFound) {
		return nil
	}
	if !m.c.SameRegistry {
		if _, err := m.target.Get(ctx, m.c.Topic); err == nil {
			return fmt.Errorf("topic %q is defined at the target, and has records that were not mirrored: %w: %w", m.c.Topic, why, fault.Exists)
		} else if !errors.Is(err, fault.NotFound) {
			return err
		}
	}
	m.c.Logger.Warn("the target does not have what was copied to it: that copy is removed, and begun anew", "topic", m.c.Topic, "storage", why.storage, "error", why)
	if err := m.c.To.Log.DeleteTopic(ctx, m.targetName(doc, why.storage)); err != nil && !errors.Is(err, fault.NotFound) {
		return err
	}
	for p := range doc.Storage[why.storage].Partitions {
		if _, err := m.c.To.Registry.Txn(ctx, registry.Txn{Deletes: []string{m.stateKey(why.storage, p)}, Quiet: true}); err != nil {
			return err
		}
	}
	return nil
}

// copyAll copies the storage topics of a definition, and those that it grows by when it follows.
func (m *Mirror) copyAll(ctx context.Context, doc *topic.Document, once bool) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var copies, holds sync.WaitGroup
	copied := make(chan struct{})
	var opened []*commitlog.Topic
	defer func() {
		copies.Wait()
		close(copied)
		holds.Wait()
		for _, t := range opened {
			err = errors.Join(err, t.Close())
		}
	}()
	for begun := 0; ; {
		for begun = max(begun, doc.Left()); begun < len(doc.Storage); begun++ {
			storage := begun // of the goroutines: begun goes on
			from, to, err := m.openPair(ctx, doc, storage)
			if m.retired(ctx, storage, err) {
				continue
			}
			if err != nil {
				cancel(err)
				return err
			}
			opened = append(opened, from, to)
			for p := range from.Config().Partitions {
				copies.Go(func() { // joined above
					if err := m.copyPartition(ctx, from, to, storage, p, once); err != nil && ctx.Err() == nil {
						cancel(err)
					}
				})
			}
			holds.Go(func() { m.hold(ctx, copied, from, to, storage, once) }) // joined above
		}
		if once {
			copies.Wait()
			return context.Cause(ctx)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookPause):
		}
		next, err := m.sourceNow(ctx)
		if err == nil {
			doc = next
		} else if !errors.Is(err, fault.Unavailable) && ctx.Err() == nil {
			cancel(err)
			return err
		}
	}
}

// openPair opens a storage topic of the source and its copy, which is made when it is missing.
func (m *Mirror) openPair(ctx context.Context, doc *topic.Document, storage int) (from, to *commitlog.Topic, err error) {
	if from, err = m.c.From.Log.Topic(ctx, doc.Storage[storage].Name); err != nil {
		return nil, nil, fmt.Errorf("storage topic %d of the source: %w", storage, err)
	}
	from = from.First(doc.Storage[storage].Partitions)
	c := from.Config()
	c.Name = m.targetName(doc, storage)
	card := doc.Card(storage)
	for p := 0; p < c.Partitions && err == nil; p++ {
		var b commitlog.Bounds
		b, err = from.Bounds(ctx, p)
		card.From = append(card.From, b.First)
	}
	c.Card = card.Encode()
	if err == nil {
		err = m.c.To.Log.CreateTopic(ctx, c)
	}
	if err == nil {
		to, err = m.c.To.Log.Topic(ctx, c.Name)
	}
	if err == nil {
		to = to.First(c.Partitions)
		// All of it, before there is anything.
		if err = m.holdTarget(ctx, to, make([]int64, c.Partitions)); err != nil {
			err = errors.Join(err, to.Close())
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("storage topic %d of the target: %w", storage, err), from.Close())
	}
	return from, to, nil
}

// targetName is what a storage topic of the source is called at the target. In one registry it needs
// a name of its own there: the definition becomes the target's, and must not fit the source any more.
func (m *Mirror) targetName(doc *topic.Document, storage int) string {
	if m.c.SameRegistry {
		return topic.MovedName(doc.Storage[storage].Name)
	}
	return topic.StorageName(m.c.To.Namespace, m.c.Topic, m.lives.Target, storage)
}

// troubles tells of a store that does not answer once, and of its end.
type troubles struct {
	logger *slog.Logger
	topic  string
	mu     sync.Mutex
	down   map[string]bool
}

func (t *troubles) note(what string, err error) {
	t.mu.Lock()
	was := t.down[what]
	if t.down == nil {
		t.down = map[string]bool{}
	}
	t.down[what] = err != nil
	t.mu.Unlock()
	switch {
	case err != nil && !was:
		t.logger.Warn("the mirror waits for a store", "topic", t.topic, "what", what, "error", err)
	case err == nil && was:
		t.logger.Info("the mirror goes on", "topic", t.topic, "what", what)
	}
}
