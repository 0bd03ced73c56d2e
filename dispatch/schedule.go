package dispatch

import (
	"bytes"
	"container/heap"
	"time"
)

// schedule decides which record may run next. It holds the unfinished records by key: the first of
// each key is its leader, the others wait behind it. Leaders that may run are in the ready list,
// failed ones in a heap by the time of their next attempt; nothing is ever searched for. It is not
// safe for concurrent use.
type schedule struct {
	leaders    table
	readyHead  *node
	readyTail  *node
	ready      int // records in the ready list
	unfinished int
	retries    retryHeap
}

// add takes in a record after all earlier ones of its key.
func (s *schedule) add(n *node) {
	s.unfinished++
	if !n.keyed {
		s.lead(n)
		return
	}
	l := s.leaders.get(n)
	if l == nil {
		n.last = n
		s.leaders.put(n)
		s.lead(n)
		return
	}
	l.last.behind = n
	l.last = n
}

// lead makes n the first of its key: it may run, or it failed before the engine was started and waits.
func (s *schedule) lead(n *node) {
	n.lead = true
	if n.fail != nil {
		s.retry(n)
		return
	}
	s.pushBack(n)
}

// take claims up to limit records, appending them to dst in the order in which they are to run:
// leaders, each followed by what already waits behind it. owed: without that, as it waits for an answer.
func (s *schedule) take(dst []*node, limit int, owed bool) []*node {
	for len(dst) < limit && s.readyHead != nil {
		n := s.popFront()
		n.state = claimed
		dst = append(dst, n)
		// The next record is already claimed: its worker will skip it, so leave it here.
		for !owed && n.behind != nil && n.behind.state == waiting && n.behind.fail == nil && len(dst) < limit {
			n = n.behind
			n.state = claimed
			dst = append(dst, n)
		}
	}
	return dst
}

// giveBack returns claimed records that were not started, in the order of take. They come before
// everything that became ready since.
func (s *schedule) giveBack(nodes []*node) {
	for i := len(nodes) - 1; i >= 0; i-- {
		n := nodes[i]
		if n.lead {
			s.pushFront(n)
		} else {
			n.state = waiting
		}
	}
}

// finish removes a claimed leader that was handled; the next record of its key may run.
func (s *schedule) finish(n *node) {
	s.unfinished--
	next := n.behind
	if n.keyed {
		s.leaders.replace(n, next)
	}
	if next != nil {
		next.last, next.lead = n.last, true
		if next.state == waiting { // a claimed one is with the same worker already
			s.lead(next)
		}
	}
}

// retry parks a claimed leader until n.fail.due.
func (s *schedule) retry(n *node) {
	n.state = retrying
	heap.Push(&s.retries, n)
}

// expire makes failed records ready when their time has come.
func (s *schedule) expire(now time.Time) {
	for len(s.retries) > 0 && !s.retries[0].fail.due.After(now) {
		s.pushBack(heap.Pop(&s.retries).(*node))
	}
}

// nextRetry is when expire has something to do; false when no record waits for its next attempt.
func (s *schedule) nextRetry() (time.Time, bool) {
	if len(s.retries) == 0 {
		return time.Time{}, false
	}
	return s.retries[0].fail.due, true
}

func (s *schedule) pushBack(n *node) {
	n.state = ready
	if s.readyTail == nil {
		s.readyHead = n
	} else {
		s.readyTail.link = n
	}
	s.readyTail = n
	s.ready++
}

func (s *schedule) pushFront(n *node) {
	n.state = ready
	n.link = s.readyHead
	s.readyHead = n
	if s.readyTail == nil {
		s.readyTail = n
	}
	s.ready++
}

func (s *schedule) popFront() *node {
	n := s.readyHead
	s.readyHead = n.link
	if s.readyHead == nil {
		s.readyTail = nil
	}
	n.link = nil
	s.ready--
	return n
}

// table finds the leader of a key: a hash table whose buckets are chains through the leaders, so
// that a key costs no memory of its own.
type table struct {
	orderBy func(key []byte) []byte // as Config has it
	buckets []*node                 // a power of two of them
	count   int
}

func (t *table) get(like *node) *node {
	if t.count == 0 {
		return nil
	}
	for l := *t.bucket(like.hash); l != nil; l = l.chain {
		if l.hash == like.hash && t.sameKey(&l.rec, &like.rec) {
			return l
		}
	}
	return nil
}

// orderingKey returns the key that orders a record: records with the same one are kept in order.
func (t *table) orderingKey(r *Record) []byte {
	if t.orderBy == nil {
		return r.Key
	}
	return t.orderBy(r.Key)
}

// sameKey treats a missing ordering key as one that differs from the empty one.
func (t *table) sameKey(a, b *Record) bool {
	x, y := t.orderingKey(a), t.orderingKey(b)
	return (x == nil) == (y == nil) && bytes.Equal(x, y)
}

func (t *table) bucket(hash uint64) **node {
	return &t.buckets[hash&uint64(len(t.buckets)-1)]
}

// put adds the leader of a key that has none.
func (t *table) put(n *node) {
	if t.count >= len(t.buckets) {
		t.grow()
	}
	b := t.bucket(n.hash)
	n.chain = *b
	*b = n
	t.count++
}

// replace puts the next leader of a key in the place of the old one; nil: the key is gone.
func (t *table) replace(old, next *node) {
	at := t.bucket(old.hash)
	for *at != old {
		at = &(*at).chain
	}
	if next == nil {
		*at = old.chain
		t.count--
		return
	}
	next.chain = old.chain
	*at = next
}

const minBuckets = 64

func (t *table) grow() {
	old := t.buckets
	t.buckets = make([]*node, max(minBuckets, 2*len(old)))
	for _, l := range old {
		for l != nil {
			next := l.chain
			b := t.bucket(l.hash)
			l.chain = *b
			*b = l
			l = next
		}
	}
}

// retryHeap orders failed leaders by the time of their next attempt.
type retryHeap []*node

func (h retryHeap) Len() int           { return len(h) }
func (h retryHeap) Less(i, j int) bool { return h[i].fail.due.Before(h[j].fail.due) }
func (h retryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].fail.index, h[j].fail.index = i, j
}

// Push serves container/heap.
func (h *retryHeap) Push(x any) {
	n := x.(*node)
	n.fail.index = len(*h)
	*h = append(*h, n)
}

// Pop serves container/heap.
func (h *retryHeap) Pop() any {
	old := *h
	n := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return n
}
