package core

import (
	"container/heap"
	"slices"
)

// What a key waits for. An item is one parked record or dead letter, a key state is all that is known of one
// key: its queue, in the order of the main topic, and a mark for each partition, below which everything of
// the key is finished there. Two things always hold. Of the parked records of a key state only the head is
// delivered, and not beside a record that comes directly from the main topic. And a key state of a live shard
// stands in the heap of due heads exactly when its head may be delivered once its time has come, so that the
// next one is found in O(log n), however many are parked: call refresh after whatever changes that.

// item is a parked record or a dead letter. There may be millions: its fields are as small as the
// stored form allows, and those of one size stand together.
type item struct {
	Origin
	state     *keyState
	place     int64 // in the journal, of what keeps it
	copy      int64
	timestamp int64
	due       int64
	since     int64
	answer    string // one for all that have the same; see State.shared

	round    int32
	attempts int32
	pending  int16 // appends about it that are under way
	dead     bool
	blocking bool
	torn     bool // its partition did not have it; see State.Bound
	busy     bool // it is being delivered, or its outcome is being written
	reason   Reason
	order    Verb // waits to be carried out
}

func (it *item) id() ID { return ID{it.Origin, int(it.round)} }

// mark is the highest origin of a key state in one partition, and the place that says so.
type mark struct {
	Origin
	place int64
	next  *mark // of another partition
}

// keyState is one ordering key. There may be as many as items.
type keyState struct {
	name  string
	queue []*item // delivered or decided about in order; a dead letter in it blocks the rest
	first mark    // of the marks; its place is -1 while there is none

	due       int64 // of its head, while it is in the heap
	index     int32 // in the heap; -1: not in it
	aside     int32 // dead letters that block nothing
	appending int32 // main records on their way into the journal
	direct    int16 // main records that dispatch is running; several only in several partitions
	busy      bool  // an item of it is busy
}

func newKeyState(name string) *keyState {
	return &keyState{name: name, first: mark{place: -1}, index: -1}
}

// key is a copy of the key of its records; nil: they have none.
func (l *keyState) key() []byte {
	if l.name[0] != 'k' {
		return nil
	}
	return []byte(l.name[1:])
}

// marks yields its marks, by partition.
func (l *keyState) marks(yield func(*mark) bool) {
	for m := &l.first; m != nil && m.place >= 0 && yield(m); {
		m = m.next
	}
}

// raise notes that everything of the key state up to o, in o's partition, is finished in the main topic.
func (l *keyState) raise(o Origin, place int64) {
	for m := range l.marks {
		if m.Storage == o.Storage && m.Partition == o.Partition {
			if o.Offset >= m.Offset {
				m.Origin, m.place = o, place
			}
			return
		}
	}
	if l.first.place < 0 {
		l.first = mark{Origin: o, place: place}
	} else {
		l.first.next = &mark{o, place, l.first.next}
	}
}

// known reports whether a main record is finished.
func (l *keyState) known(o Origin) bool {
	for m := range l.marks {
		if m.Storage == o.Storage && m.Partition == o.Partition && o.Offset <= m.Offset {
			return true
		}
	}
	return false
}

func (l *keyState) insert(it *item) {
	at, _ := slices.BinarySearchFunc(l.queue, it, func(a, b *item) int { return a.Compare(b.Origin) })
	l.queue = slices.Insert(l.queue, at, it)
}

func (l *keyState) remove(it *item) {
	if len(l.queue) > 0 && l.queue[0] == it {
		l.queue[0] = nil
		l.queue = l.queue[1:]
		return
	}
	if at := slices.Index(l.queue, it); at >= 0 {
		l.queue = slices.Delete(l.queue, at, at+1)
	} else {
		l.aside--
	}
}

// open reports whether main records of the key state have to pass its queue.
func (l *keyState) open() bool { return len(l.queue) > 0 || l.appending > 0 }

// occupy marks the item as being delivered; release ends that.
func (it *item) occupy() { it.busy, it.state.busy = true, true }

func (it *item) release() {
	if it.busy {
		it.busy, it.state.busy = false, false
	}
}

// idle reports whether only marks are left of it.
func (l *keyState) idle() bool { return !l.open() && l.aside == 0 && l.direct == 0 && !l.busy }

// deliverable returns the head when it may be delivered at its time; nil: not now.
func (l *keyState) deliverable() *item {
	if l.busy || l.direct > 0 || len(l.queue) == 0 || l.queue[0].dead || l.queue[0].order != 0 || l.queue[0].pending > 0 {
		return nil
	}
	return l.queue[0]
}

// dueHeap orders key states by the time of their head's next attempt.
type dueHeap []*keyState

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = int32(i), int32(j)
}

// Push serves container/heap.
func (h *dueHeap) Push(x any) {
	l := x.(*keyState)
	l.index = int32(len(*h))
	*h = append(*h, l)
}

// Pop serves container/heap.
func (h *dueHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.index = -1
	return l
}

// refresh brings the heap up to date after l has changed.
func (s *State) refresh(l *keyState) {
	if s.phase != live {
		return // nothing is in the heap, or no more
	}
	head := l.deliverable()
	if head == nil {
		if l.index >= 0 {
			heap.Remove(&s.heads, int(l.index))
		}
		return
	}
	l.due = head.due
	if l.index < 0 {
		heap.Push(&s.heads, l)
	} else {
		heap.Fix(&s.heads, int(l.index))
	}
}
