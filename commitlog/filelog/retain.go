package filelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// Whole segments go, from the oldest one on, when each partition's records in them are trimmed or due by
// the topic's retention, and no hold needs them; the newest that is on stable storage stays. Which one is
// the oldest then is made durable before anything is removed, and what is removed may be used again as a
// spare file. All processes of a topic do this, one at a time, under the kernel lock of meta.lock.
//
// What others must find after a crash decides what is synced: a trim is, because what comes in the place
// of lost records must not be taken for trimmed.

// withMeta runs f under the kernel lock for trims and retention.
func (s *store) withMeta(f func() error) error {
	lock, err := s.fs.OpenFile("meta.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return explain(fmt.Sprintf("topic %q: open the meta lock", s.name), err)
	}
	defer lock.Close()
	if err := lockUntil(s.over, lock, func() {}); err != nil {
		return explain(fmt.Sprintf("topic %q: take the meta lock", s.name), err)
	}
	if s.gone() {
		return notFound(s.name)
	}
	return f()
}

// trim moves the logical start of a partition, durably, and frees what whole segments it can.
func (s *store) trim(partition int, before int64) error {
	_, next, _, err := s.bounds(partition)
	if err != nil {
		return err
	}
	before = min(before, next)
	if before <= s.page.First(partition) {
		return nil
	}
	// At level os, next may be ahead of what a crash leaves. What comes in its place later must not
	// be taken for trimmed.
	if err := s.syncAll(); err != nil {
		return s.notTrimmed(err)
	}
	// Or it was cut off meanwhile, with a segment that had an error.
	if _, next, _, err = s.bounds(partition); err != nil {
		return err
	}
	before = min(before, next)
	return s.withMeta(func() error {
		firsts := s.firsts()
		if before <= firsts[partition] {
			return nil
		}
		firsts[partition] = before
		if err := replaceFile(s.fs, "trim", encodeOffsets("", firsts)); err != nil {
			return explain(fmt.Sprintf("trim topic %q", s.name), err)
		}
		s.page.Trim(partition, before)
		return s.dropTrimmed()
	})
}

// notTrimmed is the error of what comes before a trim. Whatever became of that, the trim was not begun:
// a sync whose outcome is unknown makes nothing of it unknown.
func (s *store) notTrimmed(err error) error {
	if errors.Is(err, fault.Unknown) {
		err = fmt.Errorf("%w: %s", fault.Unavailable, err.Error())
	}
	return fmt.Errorf("trim topic %q: nothing was trimmed, because what is to be trimmed can't be made durable: %w: %w", s.name, fault.NotDone, err)
}

// syncAll makes durable what is written. Behind a segment that had an error the log goes on in another
// one first, as an append would: what was promised of it is written again.
func (s *store) syncAll() error {
	for end := s.page.Written(); s.page.Synced() < end; {
		if n := s.page.Written().Number(); s.page.Broken() == n {
			if err := s.decideFor(n); err != nil {
				return fmt.Errorf("%w: %w", fault.Unavailable, err)
			}
		}
		lock, err := s.lockFor("sync.lock")
		if err != nil {
			return fmt.Errorf("%w: %w", fault.Unavailable, err)
		}
		err = s.lead(locks{sync: true})
		lock.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *store) firsts() []int64 {
	firsts := make([]int64, s.meta.Config.Partitions)
	for p := range firsts {
		firsts[p] = s.page.First(p)
	}
	return firsts
}

// dropTrimmed removes the oldest segments that hold nothing but trimmed records. The caller has
// the meta lock, as for drop.
func (s *store) dropTrimmed() error {
	firsts := s.firsts()
	trimmed := func(_ uint64, ends []int64) (string, error) {
		for p, end := range ends {
			if end > firsts[p] {
				return "", nil
			}
		}
		return "trimmed", nil
	}
	return s.drop(trimmed)
}

// endsOf are the offsets behind segment n; false when it is one that must stay: the newest, or the
// newest that is on stable storage.
func (s *store) endsOf(n uint64) ([]int64, bool, error) {
	if n >= min(s.page.Written().Number(), s.page.Synced().Number()) {
		return nil, false, nil
	}
	h, err := s.headerFrom(n + 1)
	if err != nil {
		return nil, false, err
	}
	return h.Bases, true, nil
}

// drop removes the oldest segments, as long as there is a reason to. Which one is the oldest then is
// made durable first. The caller has the meta lock.
func (s *store) drop(reason func(n uint64, ends []int64) (string, error)) error {
	low := s.page.Low()
	var reasons []string
	var failed error // ends the search; what was found before it is dropped
	for more := true; more; {
		n, why := low+uint64(len(reasons)), ""
		ends, ok, err := s.endsOf(n)
		if err == nil && ok {
			why, err = reason(n, ends)
		}
		if more = err == nil && why != ""; more {
			reasons = append(reasons, why)
		}
		failed = err
	}
	if len(reasons) == 0 {
		return failed
	}
	if err := s.markOldest(low + uint64(len(reasons))); err != nil {
		return explain(fmt.Sprintf("topic %q: note which segment is the oldest", s.name), err)
	}
	for _, why := range reasons {
		if err := s.dropOldest(why); err != nil {
			return err
		}
	}
	return failed
}

// dropOldest removes the oldest segment. A full-sized one is kept for reuse.
func (s *store) dropOldest(why string) error {
	low := s.page.Low()
	name := segmentName(low)
	g, err := s.segs.get(low)
	full := err == nil && g.limit >= s.c.SegmentBytes
	if err == nil {
		s.segs.put(g)
	}
	s.page.Keep(low + 1)
	s.segs.forget(low+1, math.MaxUint64)
	s.headers.forget(low + 1)
	if err := s.putAway(name, full); err != nil {
		// The next drop must not leave a gap: this one did not happen.
		s.page.Keep(low)
		return err
	}
	if err := s.fs.Remove(indexName(low)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.log.Info("dropped a segment", "segment", low, "why", why)
	return nil
}

// putAway renames a segment to the spare file, or removes it.
func (s *store) putAway(name string, keep bool) error {
	const spare = "spare"
	if _, err := s.fs.Stat(spare); keep && errors.Is(err, fs.ErrNotExist) {
		return s.fs.Rename(name, spare)
	}
	if err := s.fs.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// seldom is a warning that may hold for days, and is met at each look.
type seldom struct {
	mu   sync.Mutex
	what string
	at   time.Time
}

const tellAgain = time.Hour

// say tells whether it is to be said now.
func (t *seldom) say(what string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if what == t.what && now.Sub(t.at) < tellAgain {
		return false
	}
	t.what, t.at = what, now
	return true
}

// retain applies the topic's retention, from the oldest segment on.
func (s *store) retain() error {
	if c := s.config(); c.RetentionBytes == 0 && c.RetentionAgeMillis == 0 {
		return nil
	}
	return s.withMeta(func() error {
		s.followRetention() // a change of it has this lock
		c := s.config()
		needed, err := s.holds()
		if err != nil {
			return err
		}
		return s.drop(func(n uint64, ends []int64) (string, error) {
			why, err := s.expired(n)
			if err != nil || why == "" {
				return "", err
			}
			if p := firstHeld(needed, ends); p >= 0 {
				if !c.RetentionForce {
					if s.waits.say(fmt.Sprint(n, p), time.Now()) {
						s.log.Warn("retention waits for a group", "segment", n, "why", why, "partition", p, "needed", needed[p])
					}
					return "", nil
				}
				s.log.Warn("retention drops records that a group still needs", "segment", n, "why", why, "partition", p, "needed", needed[p])
			}
			return why, nil
		})
	})
}

// firstHeld is a partition that needs records below ends, or -1.
func firstHeld(needed, ends []int64) int {
	for p, o := range needed {
		if o >= 0 && o < ends[p] {
			return p
		}
	}
	return -1
}

// expired says why segment low, when it is the oldest one, is not wanted any more, or "".
func (s *store) expired(low uint64) (string, error) {
	c := s.config()
	top := s.page.Written()
	if c.RetentionBytes > 0 {
		total := top.Off()
		for n := low + 1; n < top.Number() && total <= c.RetentionBytes; n++ {
			size, err := s.headers.size(n, s.fs)
			if err != nil {
				return "", err
			}
			total += size
		}
		if total > c.RetentionBytes {
			return "size", nil
		}
	}
	if limit := s.retentionAge(); limit > 0 {
		if age, known, err := s.ageOf(low); err != nil || known && age > limit {
			return "age", err
		}
	}
	return "", nil
}

// encodeOffsets is a small binary file: crc32c, name, one offset for each partition.
func encodeOffsets(name string, offsets []int64) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0) // the checksum's place
	b = le.AppendUint32(b, uint32(len(name)))
	b = append(b, name...)
	b = le.AppendUint32(b, uint32(len(offsets)))
	for _, o := range offsets {
		b = le.AppendUint64(b, uint64(o))
	}
	le.PutUint32(b, crc32.Checksum(b[4:], crcTable))
	return b
}

func decodeOffsets(b []byte, partitions int) ([]int64, error) {
	le := binary.LittleEndian
	bad := fmt.Errorf("a damaged offsets file of %d bytes: %w", len(b), fault.Corrupt)
	if len(b) < 12 || crc32.Checksum(b[4:], crcTable) != le.Uint32(b) {
		return nil, bad
	}
	n := int(le.Uint32(b[4:]))
	if n > len(b)-12 {
		return nil, bad
	}
	b = b[8+n:]
	if int(le.Uint32(b)) != partitions || len(b) != 4+8*partitions {
		return nil, bad
	}
	out := make([]int64, partitions)
	for p := range out {
		out[p] = int64(le.Uint64(b[4+8*p:]))
	}
	return out, nil
}
