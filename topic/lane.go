package topic

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// rememberedSends is how many answered messages of a lane are known where they are, at least those
// that a log remembers too. Of those before it is only known that they are stored.
const rememberedSends = 8 * commitlog.ProducerWindow

// lane is what an idempotent producer sends for one partition of its home, when home takes nothing
// new any more: its sequences are numbered there. It takes them as a log would: each once, and none
// before the one ahead of it.
//
// Which ones are at home only home knows, so it is asked about each sequence below cut. The others
// have a place in a later storage topic, from when they are first sent until it is sure that they
// are not there, or long answered. Whatever comes while sealed storage topics are asked is parked,
// so that nothing overtakes what they refuse.
type lane struct {
	home, partition int
	cut             int64   // home surely has no sequence from here on; at first nobody knows
	next            int64   // the next sequence, once cut is known
	holes           []int64 // the sequences below next that are surely stored nowhere, in order
	sealed          int     // the last storage topic that is known to take nothing new any more

	threads  map[[2]int]*thread // by storage topic and partition
	places   map[int64]*place   // by sequence
	answered []int64            // which of them are surely stored, oldest first
	doubts   int                // how many of them are maybe stored, or due

	asking int // messages at sealed storage topics, and whoever unparks
	parked []*message
}

// thread numbers what goes to a partition of a later storage topic. It ends at a number that surely
// is not stored: the log takes none of it after that.
type thread struct {
	id   uint64
	next int64
}

// place is where a message was sent.
type place struct {
	thread             *thread
	storage, partition int
	sequence           int64 // in thread
	tries              int   // not answered yet
	maybe              bool  // the fate of a try is unknown
	due                bool  // and something newer must wait until it is known
	stored             bool
	first              int64 // offset, when it is stored
}

// lodged is where a message goes: with an identity, or nowhere as it is known to be stored, or not
// allowed, or refused by the storage topic that is produced to, as those before it were.
type lodged struct {
	as      commitlog.Producer
	known   bool
	refused bool
	at      Position
	err     error
}

func newLane(home, partition int) *lane {
	return &lane{home: home, partition: partition, cut: math.MaxInt64, sealed: home, threads: map[[2]int]*thread{}, places: map[int64]*place{}}
}

// lodge decides where a message goes, and notes it there.
func (l *lane) lodge(m *message, at int) lodged {
	p, n := m.opts.Producer, m.n
	n.place, n.asked = nil, l.asks(m)
	if n.asked {
		l.asking++
	}
	pl := l.places[p.Sequence]
	switch {
	case pl == nil && n.asked:
		m.storage, m.at = l.home, l.partition
		return lodged{as: p}
	case pl == nil && p.Sequence < l.cut && n.absent != nil:
		return lodged{err: n.absent} // a gap, by what home says
	case pl == nil && m.g.storage <= l.sealed: // its generation is being carried on, and sorted with it
		return lodged{refused: true}
	case pl == nil:
		if known, err := l.admit(p, m.g.storage); known || err != nil {
			return lodged{known: known, at: Position{m.t.name, -1, -1, -1}, err: err}
		}
		pl = l.open(m.g.storage, at)
		l.places[p.Sequence] = pl
	case pl.stored:
		return lodged{known: true, at: Position{m.t.name, pl.storage, pl.partition, pl.first}}
	}
	pl.tries++
	n.place, m.storage, m.at = pl, pl.storage, pl.partition
	return lodged{as: commitlog.Producer{ID: pl.thread.id, Epoch: p.Epoch, Sequence: pl.sequence}}
}

// asks says whether a message goes to a sealed storage topic, to be told whether it is there.
func (l *lane) asks(m *message) bool {
	if pl := l.places[m.opts.Producer.Sequence]; pl != nil {
		return !pl.stored && pl.storage < m.g.storage
	}
	return m.opts.Producer.Sequence < l.cut && m.n.absent == nil && l.partition < m.t.Document().Storage[l.home].Partitions
}

// admit decides whether a sequence that has no place may get one now. It is known when it was
// stored long ago.
func (l *lane) admit(p commitlog.Producer, storage int) (known bool, err error) {
	if l.cut == math.MaxInt64 { // the partition came later than home
		l.cut, l.next = 0, 0
	}
	want := l.want(storage)
	_, hole := slices.BinarySearch(l.holes, p.Sequence)
	switch {
	case p.Sequence == want && hole:
		l.holes = l.holes[1:]
	case p.Sequence == want:
		l.next++
	case p.Sequence < l.next && !hole && p.Sequence >= 0:
		return true, nil
	default:
		return false, fmt.Errorf("producer %x sent sequence %d; expected %d: %w", p.ID, p.Sequence, want, fault.Invalid)
	}
	return false, nil
}

// want is the sequence that has to come before any other while storage takes new records. One whose
// fate is not known, in an earlier storage topic, has to be sent again: what is newer must not
// overtake it.
func (l *lane) want(storage int) int64 {
	want := l.next
	if len(l.holes) > 0 {
		want = l.holes[0]
	}
	if l.doubts > 0 {
		for sequence, pl := range l.places {
			if pl.due || pl.maybe && pl.storage < storage {
				want = min(want, sequence)
			}
		}
	}
	return want
}

// doubt notes that a place is maybe stored, or due.
func (l *lane) doubt(pl *place, maybe, due bool) {
	if !pl.maybe && !pl.due && (maybe || due) {
		l.doubts++
	}
	pl.maybe, pl.due = pl.maybe || maybe, pl.due || due
}

// clear notes that there is no doubt about a place any more.
func (l *lane) clear(pl *place) {
	if pl.maybe || pl.due {
		l.doubts--
	}
	pl.maybe, pl.due = false, false
}

// open is the next place in a partition.
func (l *lane) open(storage, partition int) *place {
	key := [2]int{storage, partition}
	th := l.threads[key]
	if th == nil {
		th = &thread{id: commitlog.NewProducerID()}
		l.threads[key] = th
	}
	th.next++
	return &place{thread: th, storage: storage, partition: partition, sequence: th.next - 1}
}

// end notes that home has nothing from a sequence on.
func (l *lane) end(sequence int64) {
	if l.cut == math.MaxInt64 {
		l.cut, l.next = sequence, sequence
		return
	}
	for ; sequence < l.cut; l.cut-- {
		l.holes = append(l.holes, l.cut-1)
	}
	slices.Sort(l.holes)
}

// settle takes the log's answer to what was sent to a place.
func (l *lane) settle(m *message, first int64, err error, refused bool) {
	sequence, pl, now := m.opts.Producer.Sequence, m.n.place, m.g.storage
	pl.tries--
	if refused {
		l.sealed = max(l.sealed, pl.storage)
	}
	if l.places[sequence] != pl {
		return // it has known already that this comes to nothing
	}
	switch {
	case err == nil:
		l.stored(sequence, pl, first)
	case refused || surelyAbsent(err) && pl.tries == 0 && !pl.maybe:
		l.void(pl, errors.Is(err, fault.Sealed))
	default:
		l.doubt(pl, !surelyAbsent(err), pl.storage < now)
	}
}

// stored notes that a place has its record, and so have those before it in its thread.
func (l *lane) stored(sequence int64, pl *place, first int64) {
	if l.doubts > 0 {
		for earlier, other := range l.places {
			if other.thread == pl.thread && other.sequence < pl.sequence && (other.maybe || other.due) {
				l.answer(earlier, other, -1)
			}
		}
	}
	l.answer(sequence, pl, first)
	for len(l.answered) > rememberedSends {
		delete(l.places, l.answered[0])
		l.answered = l.answered[1:]
	}
}

func (l *lane) answer(sequence int64, pl *place, first int64) {
	if !pl.stored {
		pl.stored, pl.first = true, first
		l.clear(pl)
		l.answered = append(l.answered, sequence)
	}
}

// void notes that a place is empty for good, and with it all that follow in its thread. Unless it
// was the seal that refused it, those before it may be empty as well.
func (l *lane) void(pl *place, sealed bool) {
	for sequence, other := range l.places {
		switch {
		case other.thread != pl.thread || other.stored:
		case other.sequence >= pl.sequence:
			l.clear(other)
			delete(l.places, sequence)
			l.holes = append(l.holes, sequence)
		case !sealed:
			l.doubt(other, false, true)
		}
	}
	slices.Sort(l.holes)
	if key := [2]int{pl.storage, pl.partition}; l.threads[key] == pl.thread {
		delete(l.threads, key)
	}
}

// surelyAbsent says whether an error of an append means that this try was not and will not be stored.
func surelyAbsent(err error) bool {
	if errors.Is(err, fault.Unknown) {
		return false
	}
	for _, kind := range []error{fault.Sealed, fault.Fenced, fault.Forgotten, fault.Invalid, fault.NotFound, fault.Closed, fault.NotDone} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
