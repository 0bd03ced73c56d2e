package filelog

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/internal/segment"
)

// Which segment is the oldest one that is kept stands in the name of an empty file. It is moved on,
// durably, before any segment is dropped. So a segment that is missing from there on was lost, and one
// that is missing in front of it was dropped; without that mark the one would look like the other. The
// mark is also a promise: no segment is dropped before the one behind it was on stable storage.
//
// A name, because a rename takes no space: retention must go on when the disk is full.

const oldestPrefix = "oldest-"

func oldestName(n uint64) string { return fmt.Sprintf("%s%016d", oldestPrefix, n) }

// listing is what the names in a topic's directory say.
type listing struct {
	segments []uint64 // ascending
	oldest   uint64   // the oldest segment that is kept; 0: not known
}

// list reads the directory.
func (s *store) list() (listing, error) {
	var l listing
	entries, err := s.fs.ReadDir(".")
	if err != nil {
		return l, err
	}
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name(), ".seg")
		if !ok {
			digits, _ = strings.CutPrefix(e.Name(), oldestPrefix)
		}
		n, err := strconv.ParseUint(digits, 10, 32)
		switch {
		case err != nil:
		case segmentName(n) == e.Name():
			l.segments = append(l.segments, n)
		case oldestName(n) == e.Name():
			l.oldest = max(l.oldest, n)
		}
	}
	slices.Sort(l.segments)
	return l, nil
}

// dropped are the segments in front of the oldest one that is kept: a crash brought them back, or
// came before they were removed.
func (l *listing) dropped() []uint64 { return l.segments[:l.firstKept()] }

func (l *listing) kept() []uint64 { return l.segments[l.firstKept():] }

// begun is what is known to be durable of a log that begins with segment oldest: its header.
func begun(oldest uint64) segment.Pos {
	if oldest == 0 {
		return 0
	}
	return segment.At(oldest, segment.Block)
}

func (l *listing) firstKept() int {
	i, _ := slices.BinarySearch(l.segments, l.oldest)
	return i
}

// markOldest makes it durable that segment n is the oldest one that is kept. The caller has the meta
// lock, or recovers.
func (s *store) markOldest(n uint64) error {
	l, err := s.list()
	switch {
	case err != nil:
		return err
	case l.oldest == 0: // the mark was lost
		err = writeFile(s.fs, oldestName(n), nil)
	case l.oldest < n:
		err = s.fs.Rename(oldestName(l.oldest), oldestName(n))
	}
	if err != nil {
		return err
	}
	return s.fs.SyncDir(".")
}

// removeDropped removes segments in front of the oldest one that is kept.
func (s *store) removeDropped(dropped []uint64) error {
	for _, n := range dropped {
		for _, name := range []string{segmentName(n), indexName(n)} {
			if err := s.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return explain("remove a segment that was dropped", err)
			}
		}
	}
	return nil
}
