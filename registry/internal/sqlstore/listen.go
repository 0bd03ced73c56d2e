package sqlstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Each transaction that signals watches raises the revision, and stores the changed keys under that number.
// The row of the revision stays locked until the commit, so revisions appear in order: a listener that saw
// one has seen all before it.
const (
	keptChanges   = 1024   // revisions whose keys are kept; a listener further behind signals all watches
	pruneEvery    = 128    // so often the older ones are removed
	maxChangeKeys = 30_000 // bytes; more keys than that count as everything
	sessionsKey   = "!sessions"
)

// publish stores, inside a transaction, that keys changed. It comes last, as all writers share the row of the
// revision.
func (s *Store) publish(ctx context.Context, q Querier, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	if res, err := q.ExecContext(ctx, "UPDATE ringfence_revision SET revision = revision + 1 WHERE id = 1"); err != nil {
		return err
	} else if n, err := res.RowsAffected(); err != nil || n == 0 {
		return cmp.Or(err, errNoRevision)
	}
	if _, err := q.ExecContext(ctx, s.d.bind("INSERT INTO ringfence_changes (revision, change_keys) VALUES ((SELECT revision FROM ringfence_revision WHERE id = 1), %s)", 1), s.d.blob(encodeKeys(keys))); err != nil {
		return err
	}
	if s.counter.Add(1)%pruneEvery != 0 {
		return nil
	}
	_, err := q.ExecContext(ctx, fmt.Sprintf("DELETE FROM ringfence_changes WHERE revision < (SELECT revision FROM ringfence_revision WHERE id = 1) - %d", keptChanges))
	return err
}

// encodeKeys is each key behind its length; nothing when they are too many.
func encodeKeys(keys []string) []byte {
	b := []byte{}
	for _, k := range keys {
		b = binary.AppendUvarint(b, uint64(len(k)))
		b = append(b, k...)
	}
	if len(b) > maxChangeKeys {
		return []byte{0}
	}
	return b
}

// decodeKeys is nil for "everything".
func decodeKeys(b []byte) (keys []string) {
	for len(b) > 0 {
		n, w := binary.Uvarint(b)
		if w <= 0 || n == 0 || n > uint64(len(b)-w) {
			return nil
		}
		keys = append(keys, string(b[w:w+int(n)]))
		b = b[w+int(n):]
	}
	return keys
}

// listen signals the watches of this process after changes by others.
func (s *Store) listen(last int64) {
	failures := 0
	for s.ctx.Err() == nil {
		err := s.cfg.Signals.Listen(s.ctx, last)
		if err == nil {
			last, err = s.catchUp(last)
		}
		if s.ctx.Err() != nil {
			return
		}
		if err == nil {
			if failures > 0 {
				s.log.Info("the store answers again", "tries", failures)
				s.watches.All()
				poke(s.keep)
			}
			failures = 0
			continue
		}
		s.link.Lost() // other processes may not see this one either
		if failures++; failures == 1 {
			s.log.Warn("can't listen for changes; trying again", "error", err)
		}
		_ = pause(s.ctx, min(20*time.Millisecond<<min(failures, 6), time.Second))
	}
}

// catchUp signals the changes after last, and returns the last revision it saw.
func (s *Store) catchUp(last int64) (int64, error) {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	now, err := s.revision(ctx)
	if err != nil || now == last {
		return last, err
	}
	if now < last { // a lagging replica took over, or a backup was restored
		s.log.Warn("the store lost its latest changes", "revision", now, "expected", last)
		s.watches.All()
		return now, nil
	}
	expected := last
	err = each(ctx, s.cfg.Reads, func(scan func(...any) error) error {
		var revision int64
		var blob []byte
		if err := scan(&revision, &blob); err != nil {
			return err
		}
		keys := decodeKeys(blob)
		if expected++; revision != expected || keys == nil {
			s.watches.All()
		}
		expected = revision
		s.watches.Changed(keys...)
		if len(keys) > 0 && keys[0] == sessionsKey {
			poke(s.keep)
		}
		return nil
	}, s.d.bind("SELECT revision, change_keys FROM ringfence_changes WHERE revision > %s ORDER BY revision", 1), last)
	if err != nil {
		return last, err
	}
	return expected, nil
}

// ringer wakes the listeners of other processes, beside the calls that made changes. Changes during one
// ringing wait for the next.
func (s *Store) ringer() {
	warned := false
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.ring:
			s.ringing.Store(true)
		}
		ctx, cancel := context.WithTimeout(s.ctx, patience)
		err := s.cfg.Signals.Ring(ctx)
		s.ringing.Store(false)
		cancel()
		if err != nil && !warned && !errors.Is(err, context.Canceled) {
			warned = true
			s.log.Warn("can't wake other processes; they notice changes at intervals", "error", err)
		}
	}
}
