package kafkalog

import (
	"sync"
	"sync/atomic"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// store is a topic as this process has it open, shared by its handles.
type store struct {
	l         *kafkaLog
	config    driver.TopicConfig // its retention is that of when it was opened, see now
	kafkaName string
	id        [16]byte
	card      int64 // its number, see card.go
	weak      error // why appends are refused: their acks would promise too little
	handles   int   // guarded by l.mu

	kept    atomic.Pointer[driver.TopicConfig] // config with the retention that was seen last
	meta    atomic.Pointer[topicMeta]          // the last that was asked for
	gone    atomic.Bool                        // deleted
	sealed  atomic.Bool                        // for good: every partition refuses, and the ends are final
	suspect atomic.Bool                        // the seal is being looked for
	parts   []*partition

	mu   sync.Mutex
	ends []int64 // of the sealed topic
}

// partition is the state of one partition: its producing side and its reading side.
type partition struct {
	s       *store
	index   int
	produce queue
	read    reads
}

func newStore(l *kafkaLog, c driver.TopicConfig, kafkaName string, m topicMeta) *store {
	s := &store{l: l, config: c, kafkaName: kafkaName, id: m.id}
	s.kept.Store(&c)
	s.meta.Store(&m)
	s.parts = make([]*partition, c.Partitions)
	for i := range s.parts {
		s.parts[i] = &partition{s: s, index: i}
	}
	return s
}

// wakeAll makes everybody who waits look again.
func (s *store) wakeAll() {
	for _, p := range s.parts {
		p.read.wake(-1)
	}
}
