package mirror

import (
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// holdName is what a mirror holds the source under; no group can have such a name.
func holdName(target string) string { return "mirror:" + target }

// keeps says whether the source drops records by itself.
func keeps(from *commitlog.Topic) bool {
	c := from.Config()
	return c.RetentionBytes > 0 || c.RetentionAgeMillis > 0
}

// holdPause is between two notes to the source's retention of what was copied.
const holdPause = 5 * time.Second

// hold tells the retention of the source what is not copied yet; once, or again and again until
// all is copied. What fails is tried again: until then what was held before stays held, or nothing.
func (m *Mirror) hold(ctx context.Context, copied <-chan struct{}, from *commitlog.Topic, storage int, once bool) {
	for {
		err := m.holdNow(ctx, from, storage)
		if ctx.Err() != nil {
			return
		}
		m.problems.note("retention of the source", err)
		pause := holdPause
		switch {
		case err != nil:
			pause = retryPause
		case once:
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-copied:
			return
		case <-time.After(pause):
		}
	}
}

func (m *Mirror) holdNow(ctx context.Context, from *commitlog.Topic, storage int) error {
	offsets := make([]int64, from.Config().Partitions)
	for p := range offsets {
		s, err := m.readState(ctx, stateKey(m.c.Topic, storage, p))
		if err != nil {
			return err
		}
		if offsets[p] = s.From; s.version == "" {
			offsets[p] = 0
		}
	}
	return from.Hold(ctx, holdName(m.c.To.Name), offsets)
}

// Abandon lets the source forget what a mirror to the target of that name has not copied. It needs
// no target. A mirror that still runs holds it again, and one that goes on later may find that the
// source has dropped what it wants. ErrNotFound for an unknown topic.
func Abandon(ctx context.Context, from Side, topicName, target string) error {
	doc, err := topic.NewCatalog(from.Log, from.Registry, from.Namespace).Get(ctx, topicName)
	if err != nil {
		return err
	}
	var names []string
	for _, s := range doc.Storage {
		names = append(names, s.Name)
	}
	return release(ctx, from.Log, names, target)
}

// release ends the holds of a mirror on storage topics of the source. One that is gone holds nothing.
func release(ctx context.Context, from *commitlog.Log, storage []string, target string) error {
	for _, name := range storage {
		t, err := from.Topic(ctx, name)
		if errors.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if keeps(t) {
			none := make([]int64, t.Config().Partitions)
			for p := range none {
				none[p] = -1
			}
			err = t.Hold(ctx, holdName(target), none)
		}
		if err = errors.Join(err, t.Close()); err != nil {
			return err
		}
	}
	return nil
}
