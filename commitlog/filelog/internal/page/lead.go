package page

import (
	"errors"

	"github.com/ringfence/ringfence/internal/segment"
)

// ErrBroken says that the newest segment had an error: what waits for its sync has an unknown
// outcome, and the next append goes on in another one.
var ErrBroken = errors.New("the segment had a write or sync error")

// Disk is what Lead needs of the segments. Both methods call Fail before they return the error of an
// fdatasync; that a file can't be opened now is no such error.
type Disk interface {
	// Sync makes a segment durable by an fdatasync. It does nothing, and proof is false, when that would
	// prove nothing: its descriptor was opened after bytes behind from had been written. The kernel
	// tells an error to each descriptor that is open then, and to no later one.
	Sync(n uint64, from segment.Pos) (proof bool, err error)
	// Again writes what a segment holds between two positions once more, through a descriptor that is
	// open before it begins, and syncs that one.
	Again(n uint64, from, to segment.Pos) error
}

// Lead makes all that is written durable and publishes it. locked: the caller has the sync lock.
//
// The kernel may have told the error of an fdatasync only to a process that was killed before it could pass
// it on. So the holder of the lock leaves a mark while it syncs. A process that finds the mark of another
// writes the bytes again, as it does for segments with an error.
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
		start := max(from, segment.At(n, 0))
		proof := false
		var err error
		switch broken := p.Broken(); {
		case broken >= to.Number():
			return ErrBroken
		case doubt || n <= broken: // no sync of what stands there is a proof
		default:
			proof, err = d.Sync(n, start)
		}
		if err == nil && !proof {
			err = d.Again(n, start, to)
		}
		if err != nil {
			return err
		}
	}
	if !p.Sync(to) {
		return ErrBroken
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
func (p *Page) FateOf(end segment.Pos) Fate { return fate(p.Synced(), p.Broken(), end) }

func fate(synced segment.Pos, broken uint64, end segment.Pos) Fate {
	switch {
	case synced >= end && synced.Number() == end.Number():
		return Durable
	case broken == end.Number():
		return Unknown
	case synced < end:
		return Waiting
	case broken < end.Number():
		return Durable // it was never cut
	}
	return InHeader
}
