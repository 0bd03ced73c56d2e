package page

import (
	"errors"

	"github.com/ringfence/ringfence/internal/segment"
)

// ErrPoisoned says that the newest segment had an error: what waits for its sync has an unknown
// outcome, and the next append goes on in another one.
var ErrPoisoned = errors.New("the segment had a write or sync error")

// Disk is what Lead needs of the segments. Both methods call Fail before they return the error of an
// fdatasync; that a file can't be opened now is no such error.
type Disk interface {
	// Sync makes a segment durable by an fdatasync.
	Sync(n uint64) error
	// Again writes what a segment holds between two positions once more, and syncs it.
	Again(n uint64, from, to segment.Pos) error
}

// Lead makes all that is written durable and publishes it. locked: the caller has the sync lock.
//
// An fdatasync that failed may have told nobody but a process that was killed before it could say
// so. Who has the lock leaves a mark meanwhile; who finds the mark of another does not know what
// became of that sync, and writes the bytes again, as it does for segments that had an error.
func (p *Page) Lead(d Disk, locked bool) error {
	doubt := p.load(wordSyncing) != 0
	from, to := p.Synced(), p.Written()
	if locked {
		p.store(wordSyncing, uint64(to))
	}
	err := p.syncAll(d, from, to, doubt)
	if locked && (err == nil || !doubt) {
		p.store(wordSyncing, 0)
	}
	return err
}

func (p *Page) syncAll(d Disk, from, to segment.Pos, doubt bool) error {
	for n := max(from.Number(), p.Low()); n <= to.Number(); n++ {
		var err error
		switch poison := p.Poison(); {
		case poison >= to.Number():
			return ErrPoisoned
		case doubt || n <= poison:
			err = d.Again(n, max(from, segment.At(n, 0)), to)
		default:
			err = d.Sync(n)
		}
		if err != nil {
			return err
		}
	}
	if !p.Sync(to) {
		return ErrPoisoned
	}
	return nil
}

// Fate is what is known of bytes that wait for a sync.
type Fate int

// The fates.
const (
	Waiting Fate = iota
	Durable
	Unknown
	// InHeader: the log went on in another segment. Its header tells where this one was cut.
	InHeader
)

// FateOf is the fate of what stands below end.
func (p *Page) FateOf(end segment.Pos) Fate { return fate(p.Synced(), p.Poison(), end) }

func fate(synced segment.Pos, poison uint64, end segment.Pos) Fate {
	switch {
	case synced >= end && synced.Number() == end.Number():
		return Durable
	case poison == end.Number():
		return Unknown
	case synced < end:
		return Waiting
	case poison < end.Number():
		return Durable // it was never cut
	}
	return InHeader
}
