package kafkalog

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// sequenceHeader carries an append's sequence on its first record where Kafka's own sequence
// number, which counts records, does not tell it. Readers don't see it.
const sequenceHeader = "ringfence-sequence"

// ourProducers is where the Kafka producer ids begin that stand for a driver.Producer's; those of
// the upper half below it are the logs' own. Kafka itself gives out ids from 0 on, and takes any.
const ourProducers = 1 << 62

func ours(kafkaID int64) bool { return kafkaID >= ourProducers }

// identity is a producer as one partition knows it: what goes to the broker, and where the next
// append stands. The broker takes a batch only if its sequence follows that of the batch before
// and its epoch is not below the highest one it saw: a compare-and-set that every process is
// subject to, and the reason why a stale view here costs a round trip and never an order.
type identity struct {
	id uint64 // of the driver.Producer; 0: the log's own

	kafkaID int64
	standing
	known  bool // the standing is what the broker has, together with what is on its way
	recent []place
	used   time.Time
}

// standing is where the next append goes.
type standing struct {
	epoch    int32 // -1: none yet
	kafkaSeq int32 // of the next record
	next     int64 // sequence of the next append
}

// place is where an append stands.
type place struct{ sequence, first int64 }

const keepPlaces = 4 * driver.ProducerWindow

func (q *queue) identity(id uint64) *identity {
	if id == 0 {
		if q.own == nil {
			q.own = &identity{known: true}
			q.own.begin()
		}
		return q.own
	}
	have := q.others[id]
	if have == nil {
		have = &identity{id: id, kafkaID: int64(id&(ourProducers-1) | ourProducers), standing: standing{epoch: -1}} //nolint:gosec // below 2^63
		if q.others == nil {
			q.others = map[uint64]*identity{}
		}
		q.forget()
		q.others[id] = have
	}
	have.used = time.Now()
	return have
}

// keepIdentities is how many producers a partition remembers, at least. The broker is asked about one
// that was forgotten, as after a restart.
const keepIdentities = 1000

// forget drops the half of the producers that was idle for longest, once there are twice as many as
// are to be kept; but none in doubt before a day is over, which is how long the broker itself remembers.
func (q *queue) forget() {
	if len(q.others) < 2*keepIdentities {
		return
	}
	byAge := slices.SortedFunc(maps.Values(q.others), func(a, b *identity) int { return a.used.Compare(b.used) })
	for _, i := range byAge[:len(byAge)-keepIdentities] {
		if i.known || time.Since(i.used) > 24*time.Hour {
			delete(q.others, i.id)
		}
	}
}

// follow is the Kafka sequence n records after seq; it wraps.
func follow(seq int32, n int) int32 {
	return int32((int64(seq) + int64(n)) & math.MaxInt32) //nolint:gosec // masked
}

func (i *identity) remember(sequence, first int64) {
	if len(i.recent) >= keepPlaces {
		i.recent = append(i.recent[:0], i.recent[len(i.recent)-driver.ProducerWindow+1:]...)
	}
	i.recent = append(i.recent, place{sequence, first})
}

// find is the first offset of an append; -1: forgotten.
func (i *identity) find(sequence int64) int64 {
	for k := len(i.recent) - 1; k >= 0; k-- {
		if i.recent[k].sequence == sequence {
			return i.recent[k].first
		}
	}
	return -1
}

// undo forgets that a batch is on its way. Its sequence numbers are free if it surely is absent;
// otherwise our own goes on under a new epoch, which keeps it out if it comes yet, and of others'
// the broker has to be asked.
func (i *identity) undo(b *batch) {
	switch {
	case i.id != 0:
		i.standing, i.known = b.before, false
	case !b.maybe:
		i.kafkaSeq = b.sequence
	default:
		i.renew()
	}
}

// renew begins a new epoch of the log's own identity.
func (i *identity) renew() {
	i.kafkaSeq = 0
	if i.epoch++; i.epoch == math.MaxInt16 {
		i.begin()
	}
}

// begin makes the log's own identity a new one, which no broker has seen. It is never kept longer
// than the partition is open: an identity that began to count anew would pass for a repetition.
func (i *identity) begin() {
	i.kafkaID, i.standing = ourProducers/2+rand.Int64N(ourProducers/2), standing{}
}

// verdict is what becomes of an append.
type verdict int

const (
	take   verdict = iota // it is the next one
	known                 // it is stored or on its way
	look                  // the broker's view must be read first
	refuse                // it is an error
)

// depths of reading the broker's view: nothing, what Kafka keeps in memory and the last records,
// many more records.
const (
	unread = iota
	shallow
	deep
)

// judge decides about an append.
func (i *identity) judge(w *pending, sealed bool) (v verdict, first int64, err error) {
	p := w.req.Producer
	switch {
	case i.id == 0 && sealed:
		return refuse, 0, errRefused
	case i.id == 0:
		return take, 0, nil
	case p.Epoch < 0 || p.Epoch >= math.MaxInt16:
		return refuse, 0, fmt.Errorf("producer %x has epoch %d; expected 0 to %d, which is what Kafka has room for: %w", p.ID, p.Epoch, math.MaxInt16-1, fault.Invalid)
	case p.Sequence < 0:
		return refuse, 0, fmt.Errorf("producer %x appends sequence %d; expected 0 or more: %w", p.ID, p.Sequence, fault.Invalid)
	case !i.known:
		return look, 0, nil
	case p.Epoch < i.epoch:
		return refuse, 0, fmt.Errorf("producer %x appends with epoch %d after epoch %d: %w", p.ID, p.Epoch, i.epoch, fault.Fenced)
	case p.Sequence < i.next:
		first = i.find(p.Sequence)
		if first < 0 && w.looked < deep && i.next-p.Sequence <= driver.ProducerWindow {
			return look, 0, nil
		}
		return known, first, nil
	case w.looked == unread && (p.Sequence > i.next || sealed):
		return look, 0, nil
	case p.Sequence > i.next:
		return refuse, 0, fmt.Errorf("producer %x appends sequence %d; expected at most %d: %w", p.ID, p.Sequence, i.next, fault.Invalid)
	case sealed:
		return refuse, 0, errRefused
	}
	return take, 0, nil
}

// plain says that Kafka's sequence number tells ours: no header is needed.
func (i *identity) plain(req *driver.AppendRequest) bool {
	return len(req.Records) == 1 && int64(i.kafkaSeq) == req.Producer.Sequence
}

// sequences gives the sequence and the first offset of every append in a batch of this identity.
func sequences(h *header, body []byte, visit func(sequence, first int64)) error {
	var r rawRecord
	withHeaders := false
	for n := int32(0); len(body) > 0; n++ {
		rest, err := r.next(h, body)
		if err != nil {
			return err
		}
		body = rest
		at := slices.IndexFunc(r.Headers, func(h kmsg.Header) bool { return h.Key == sequenceHeader })
		if n == 0 {
			withHeaders = at >= 0
		}
		switch {
		case at >= 0:
			sequence, err := strconv.ParseInt(string(r.Headers[at].Value), 10, 64)
			if err != nil {
				return fmt.Errorf("the header %s: %w", sequenceHeader, err)
			}
			visit(sequence, r.offset)
		case !withHeaders:
			visit(int64(follow(h.FirstSequence, int(n))), r.offset)
		}
	}
	return nil
}
