package core

import (
	"container/heap"
	"slices"
)

// item is a record that is parked or a dead letter.
type item struct {
	ID
	lane      *lane
	place     int64 // in the journal, of what keeps it
	dead      bool
	blocking  bool
	copy      int64
	reason    Reason
	timestamp int64
	attempts  int
	due       int64
	since     int64
	answer    string

	pending int  // appends about it that are under way
	order   Verb // that waits to be carried out
}

// mark is the highest origin of a lane in one partition, and the place that says so.
type mark struct {
	Origin
	place int64
}

// lane is one ordering key.
type lane struct {
	name  string
	key   []byte
	queue []*item // what is delivered or decided about in order; a dead letter in it blocks the rest
	aside int     // dead letters that block nothing
	marks []mark  // by partition

	direct    []Origin // main records that dispatch is running; several only in several partitions
	busy      *item    // is being delivered, or what came of that is being written; nil: none
	appending int      // main records on their way into the journal
	index     int      // in the heap; -1: not in it
	due       int64    // of its head, while it is in the heap
}

// raise notes that everything of the lane up to o, in o's partition, is finished in the main topic.
func (l *lane) raise(o Origin, place int64) {
	for i := range l.marks {
		if m := &l.marks[i]; m.Storage == o.Storage && m.Partition == o.Partition {
			if o.Offset >= m.Offset {
				*m = mark{o, place}
			}
			return
		}
	}
	l.marks = append(l.marks, mark{o, place})
}

// known says whether a main record is finished.
func (l *lane) known(o Origin) bool {
	for _, m := range l.marks {
		if m.Storage == o.Storage && m.Partition == o.Partition && o.Offset <= m.Offset {
			return true
		}
	}
	return false
}

func (l *lane) insert(it *item) {
	at, _ := slices.BinarySearchFunc(l.queue, it, func(a, b *item) int { return a.Compare(b.Origin) })
	l.queue = slices.Insert(l.queue, at, it)
}

func (l *lane) remove(it *item) {
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

// open says whether main records of the lane go by its queue.
func (l *lane) open() bool { return len(l.queue) > 0 || l.appending > 0 }

// idle says whether nothing but marks is left of it.
func (l *lane) idle() bool { return !l.open() && l.aside == 0 && len(l.direct) == 0 && l.busy == nil }

// deliverable is the lane's head when it may be delivered at its time; nil: not now.
func (l *lane) deliverable() *item {
	if l.busy != nil || len(l.direct) > 0 || len(l.queue) == 0 || l.queue[0].dead || l.queue[0].pending > 0 {
		return nil
	}
	return l.queue[0]
}

// dueHeap orders lanes by the time of their head's next attempt.
type dueHeap []*lane

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for container/heap.
func (h *dueHeap) Push(x any) {
	l := x.(*lane)
	l.index = len(*h)
	*h = append(*h, l)
}

// Pop is for container/heap.
func (h *dueHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.index = -1
	return l
}

// refresh brings the heap up to date after l has changed.
func (s *State) refresh(l *lane) {
	head := l.deliverable()
	if head == nil || s.phase != live {
		if l.index >= 0 {
			heap.Remove(&s.heads, l.index)
		}
		return
	}
	l.due = head.due
	if l.index < 0 {
		heap.Push(&s.heads, l)
	} else {
		heap.Fix(&s.heads, l.index)
	}
}
