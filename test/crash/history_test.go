package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ringfence/ringfence/commitlog"
)

const (
	topicName  = "t"
	partitions = 3
)

// attempt is one append of one record, as its producer knows it.
type attempt struct {
	writer    int
	partition int
	sequence  int64 // counts (writer, partition)
	value     string
	tries     int
	acked     bool
	refused   bool // certainly: the last try, and all before it
	first     int64
}

func (a attempt) id() [2]int { return [2]int{a.writer, a.partition} }

func (a attempt) options() *commitlog.AppendOptions {
	if !idempotent(a.writer) {
		return nil
	}
	return &commitlog.AppendOptions{Producer: commitlog.Producer{ID: uint64(a.writer + 1), Sequence: a.sequence}}
}

// Even writers are idempotent and repeat what failed; odd ones are not and go on.
func idempotent(writer int) bool { return writer%2 == 0 }

func (a attempt) records() []commitlog.Record {
	return []commitlog.Record{{Key: []byte("k"), Value: []byte(a.value)}}
}

// history is what the writers did and were told.
type history struct {
	mu       sync.Mutex
	attempts []*attempt
	created  bool // the topic's creation was acked
	sealing  bool
	ends     []int64 // of an acked seal
	trims    [partitions]int64
	counts   map[[2]int]int64
	killed   bool // the process of the first two writers is dead
}

func newHistory() *history { return &history{counts: map[[2]int]int64{}} }

// begin notes an append that is about to be tried.
func (h *history) begin(writer, partition, size int) *attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := &attempt{writer: writer, partition: partition}
	a.sequence = h.counts[a.id()]
	h.counts[a.id()]++
	a.value = fmt.Sprintf("%d/%d/%d ", writer, partition, a.sequence)
	for len(a.value) < size {
		a.value += a.value
	}
	h.attempts = append(h.attempts, a)
	return a
}

// killFirst says that the process of the first two writers is about to be killed. Its goroutines run on,
// and what they are told from now on was told to nobody.
func (h *history) killFirst() {
	h.set(func(h *history) { h.killed = true })
}

// end notes what became of a try.
func (h *history) end(a *attempt, first int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.killed && a.writer < 2 {
		return
	}
	certain := err != nil && !errors.Is(err, commitlog.ErrUnknown)
	a.acked, a.first = err == nil, first
	a.refused = certain && (a.tries == 0 || a.refused)
	a.tries++
}

// snapshot is the history at one moment.
func (h *history) snapshot() *history {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &history{created: h.created, sealing: h.sealing, ends: h.ends, trims: h.trims}
	for _, a := range h.attempts {
		copied := *a
		c.attempts = append(c.attempts, &copied)
	}
	return c
}

func (h *history) set(change func(h *history)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

// found is where the log has the values of a history.
type found map[string]int64

// contents reads everything and checks that it can have come from the history.
func (h *history) contents(ctx context.Context, t *commitlog.Topic) (found, error) {
	known := map[string]*attempt{}
	for _, a := range h.attempts {
		known[a.value] = a
	}
	all := found{}
	for p := range partitions {
		b, err := t.Bounds(ctx, p)
		if err != nil {
			return nil, err
		}
		if b.First > h.trims[p] {
			return nil, fmt.Errorf("partition %d starts at %d; it was trimmed to %d at most", p, b.First, h.trims[p])
		}
		last := b.First - 1
		for at := b.First; at < b.Next; {
			recs, next, err := t.Read(ctx, p, at, nil, nil)
			if err != nil {
				return nil, fmt.Errorf("read partition %d from %d of [%d, %d): %w", p, at, b.First, b.Next, err)
			}
			for _, r := range recs {
				a := known[string(r.Value)]
				switch _, twice := all[string(r.Value)]; {
				case a == nil || a.partition != p:
					return nil, fmt.Errorf("partition %d offset %d holds %.40q, which nobody sent there", p, r.Offset, r.Value)
				case twice:
					return nil, fmt.Errorf("%.40q is stored twice", r.Value)
				case r.Offset <= last || r.Offset >= b.Next:
					return nil, fmt.Errorf("offset %d stands behind %d in [%d, %d)", r.Offset, last, b.First, b.Next)
				}
				all[string(r.Value)], last = r.Offset, r.Offset
			}
			if next <= at {
				return nil, fmt.Errorf("partition %d: a read from %d of [%d, %d) gets nowhere", p, at, b.First, b.Next)
			}
			at = next
		}
	}
	return all, nil
}

// holds checks what a log has against what h was told: before is the history when the log stood
// still, h what was tried until then or later.
func (h *history) holds(all found, before *history, first [partitions]int64) error {
	for _, a := range before.attempts {
		at, ok := all[a.value]
		switch {
		case a.acked && !ok && a.first >= first[a.partition]:
			return fmt.Errorf("%.20q was acked at offset %d of partition %d and is lost", a.value, a.first, a.partition)
		case a.acked && ok && at != a.first && a.first >= 0:
			return fmt.Errorf("%.20q was acked at offset %d and stands at %d", a.value, a.first, at)
		case a.refused && ok:
			return fmt.Errorf("%.20q was certainly refused and stands at %d", a.value, at)
		}
	}
	return nil
}

// prefix checks that each producer's records are a prefix of what it sent and was not refused.
func (h *history) prefix(all found, first [partitions]int64) error {
	missing := map[[2]int]string{}
	for _, a := range h.attempts {
		at, ok := all[a.value]
		hole := missing[a.id()]
		switch {
		case ok && hole != "":
			return fmt.Errorf("%.20q stands at %d, and %.20q, which the same producer sent before, is missing", a.value, at, hole)
		case !ok && !a.refused && !(a.acked && a.first < first[a.partition]):
			missing[a.id()] = a.value
		}
	}
	return nil
}

// verify checks a log after whatever happened, then goes on with it: every producer repeats
// itself, everybody appends more, and a second look finds all of that.
func (h *history) verify(ctx context.Context, open func() (*commitlog.Log, error), before *history, prefix bool) error {
	l, err := open()
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	err = h.verifyOpen(ctx, l, before, prefix)
	if cerr := l.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close the log: %w", cerr)
	}
	if err != nil {
		return err
	}
	if l, err = open(); err != nil {
		return fmt.Errorf("open the log again: %w", err)
	}
	defer l.Close()
	t, err := l.Topic(ctx, topicName)
	if err != nil {
		return err
	}
	return h.look(ctx, t, h.snapshot(), false)
}

func (h *history) verifyOpen(ctx context.Context, l *commitlog.Log, before *history, prefix bool) error {
	t, err := l.Topic(ctx, topicName)
	if errors.Is(err, commitlog.ErrNotFound) && !before.created {
		h.attempts = nil
		if err = l.CreateTopic(ctx, commitlog.TopicConfig{Name: topicName, Partitions: partitions}); err == nil {
			t, err = l.Topic(ctx, topicName)
		}
	}
	if err != nil {
		return err
	}
	if err := h.look(ctx, t, before, prefix); err != nil {
		return err
	}
	b, err := t.Bounds(ctx, 0)
	if err != nil {
		return err
	}
	if err := h.sealHolds(ctx, t, b.Sealed, before); err != nil || b.Sealed {
		return err
	}
	return h.goOn(ctx, t)
}

// look reads all and checks it.
func (h *history) look(ctx context.Context, t *commitlog.Topic, before *history, prefix bool) error {
	all, err := h.contents(ctx, t)
	if err != nil {
		return err
	}
	var first [partitions]int64
	for p := range first {
		b, err := t.Bounds(ctx, p)
		if err != nil {
			return err
		}
		first[p] = b.First
	}
	if err := h.holds(all, before, first); err != nil {
		return err
	}
	if prefix {
		return h.prefix(all, first)
	}
	return nil
}

func (h *history) sealHolds(ctx context.Context, t *commitlog.Topic, sealed bool, before *history) error {
	if sealed && !h.sealing {
		return errors.New("the topic is sealed, and nobody sealed it")
	}
	if before.ends == nil {
		return nil
	}
	ends, err := t.Seal(ctx)
	if err != nil || !sealed || !slices.Equal(ends, before.ends) {
		return fmt.Errorf("the topic was sealed at %v; now: sealed %v, %v, %w", before.ends, sealed, ends, err)
	}
	return nil
}

// goOn appends: what producers sent already, again, and something new from each.
func (h *history) goOn(ctx context.Context, t *commitlog.Topic) error {
	all, err := h.contents(ctx, t)
	if err != nil {
		return err
	}
	for _, a := range h.attempts {
		// From now on the log is what counts: acks after the crash went with it.
		a.first, a.acked = 0, false
		if at, ok := all[a.value]; ok {
			a.first, a.acked = at, true
		}
		a.refused = false
		if !idempotent(a.writer) {
			continue
		}
		first, err := t.Append(ctx, a.partition, a.records(), a.options())
		switch {
		case err != nil:
			return fmt.Errorf("%.20q again: %w", a.value, err)
		case a.acked && first != a.first && first != -1:
			return fmt.Errorf("%.20q stands at %d, and repeating it was acked at %d", a.value, a.first, first)
		case !a.acked && first != -1: // -1: stored once, and trimmed
			a.first, a.acked = first, true
		}
	}
	if h.counts == nil {
		h.counts = map[[2]int]int64{}
		for _, a := range h.attempts {
			h.counts[a.id()] = max(h.counts[a.id()], a.sequence+1)
		}
	}
	for writer := range 2 {
		for p := range partitions {
			a := h.begin(writer, p, 100)
			first, err := t.Append(ctx, p, a.records(), a.options())
			if err != nil {
				return fmt.Errorf("append after it all: %w", err)
			}
			h.end(a, first, nil)
		}
	}
	return nil
}
