package topic

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/ringfence/ringfence/commitlog"
)

// Sequences of idempotent producers are numbered in the partitions of one storage topic: that is how
// the log knows them. A producer keeps its numbers in the storage topic that was produced to when it
// began. Its messages that go to later ones get numbers of an ID that nobody else has, in the order
// in which they come, and a message that is sent again goes to the place where it was sent before:
// the log acknowledges it if it has it, also after it was sealed, and else it is surely not there.
//
// So a switch neither loses nor doubles a message of a producer that lives through it. One that is
// started again after a switch has to begin with an ID of its own: the log refuses sequences that
// go on from those of another storage topic.

// rememberedSends is how many messages of a producer are known to be repeated, at least those that a
// log remembers too.
const rememberedSends = 8 * commitlog.ProducerWindow

// streams are the idempotent producers of a topic.
type streams struct {
	mu sync.Mutex
	m  map[uint64]*stream // by ID
}

// stream is one of them.
type stream struct {
	home   int                 // the storage topic with its own numbers
	sent   map[int]int64       // by partition of home: the highest sequence
	alias  uint64              // its ID elsewhere
	next   map[[2]int]int64    // by storage topic and partition: the next sequence there
	recent map[original]lodged // what was sent elsewhere
	order  []original          // of recent, oldest first
}

// original is a message as the producer numbered it.
type original struct {
	key       uint64 // hash of the record's key
	partition int    // asked for
	sequence  int64
}

// lodged is where it was sent.
type lodged struct {
	storage, partition int
	sequence           int64
}

// lodge finds where a message of an idempotent producer goes while g takes new ones: its storage
// topic and partition, and the identity that it has there.
func (s *streams) lodge(t *Topic, g *generation, m *message, at int) (lodged, commitlog.Producer) {
	p := m.opts.Producer
	o := original{key: XXHash64.Sum(m.key), partition: m.partition, sequence: p.Sequence}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.m[p.ID]
	if st == nil {
		st = &stream{home: g.storage, sent: map[int]int64{}, next: map[[2]int]int64{}, recent: map[original]lodged{}, alias: aliasOf(p.ID)}
		if s.m == nil {
			s.m = map[uint64]*stream{}
		}
		s.m[p.ID] = st
	}
	if g.storage == st.home {
		st.sent[at] = max(st.sent[at], p.Sequence+1)
		return lodged{st.home, at, p.Sequence}, p
	}
	if l, ok := st.recent[o]; ok && !m.absent {
		return l, commitlog.Producer{ID: st.alias, Epoch: p.Epoch, Sequence: l.sequence}
	}
	if home := t.homeOf(st.home, m); p.Sequence < st.sent[home] && !m.absent {
		return lodged{st.home, home, p.Sequence}, p
	}
	l := lodged{g.storage, at, st.next[[2]int{g.storage, at}]}
	st.next[[2]int{g.storage, at}]++
	st.remember(o, l)
	return l, commitlog.Producer{ID: st.alias, Epoch: p.Epoch, Sequence: l.sequence}
}

func (st *stream) remember(o original, l lodged) {
	if _, ok := st.recent[o]; !ok {
		st.order = append(st.order, o)
	}
	st.recent[o] = l
	if len(st.order) > rememberedSends {
		delete(st.recent, st.order[0])
		st.order = st.order[1:]
	}
}

// homeOf is the partition in which a message lay, or would have, in an earlier storage topic.
func (t *Topic) homeOf(storage int, m *message) int {
	if m.partition != AnyPartition {
		return m.partition
	}
	doc := t.Document()
	s := doc.Storage[storage]
	return doc.Router.Route(doc.Hash.Sum(m.key), s.Partitions, s.K)
}

// aliasOf is an ID that no other process uses, and never 0.
func aliasOf(id uint64) uint64 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], id)
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	return xxhash.Sum64(b[:]) | 1
}
