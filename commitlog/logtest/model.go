package logtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/commitlog"
)

var modelTests = []test{{"Model/RandomOperationsMatchAModel", nil, checkModel}}

// model is what a topic must contain, and the handles it is checked through.
type model struct {
	*rapid.T
	e       *env
	name    string
	logs    []*commitlog.Log
	topics  []*commitlog.Topic
	parts   [modelPartitions]modelPartition
	sealed  bool
	counter int
}

const (
	modelPartitions = 3
	slowModel       = 10 * time.Second // of random operations on a log of milliseconds
)

type modelPartition struct {
	recs     []commitlog.Record // all that were ever appended
	first    int64              // as trimmed
	producer uint64
	sequence int64   // of the producer
	acked    []int64 // by sequence
}

// forgets says whether a log may refuse what the producer appends, as nothing of it is there any more.
func (part *modelPartition) forgets(f Features, err error) bool {
	n := len(part.acked)
	refused := errors.Is(err, commitlog.ErrForgotten) || errors.Is(err, commitlog.ErrInvalid) // a log that knows nothing of it takes it for a gap
	if !f.SequencesInRecords || !refused || n == 0 || part.acked[n-1] >= part.first {
		return false
	}
	part.producer++
	part.sequence, part.acked = 0, nil
	return true
}

func checkModel(e *env) {
	logs := []*commitlog.Log{e.open()}
	if !e.h.Features.SingleLog {
		logs = append(logs, e.open())
	}
	defer func() {
		for _, l := range logs {
			e.must(l.Close())
		}
	}()
	round, failed := 0, false
	began := time.Now()
	rapid.Check(struct{ rapid.TB }{e.T}, func(t *rapid.T) { // without the deadline of a *testing.T, which a bubble has not
		if e.h.Features.Slow && time.Since(began) > slowModel && !failed {
			return // enough; a failure is looked into for as long as it takes
		}
		failed = true // unless it comes to its end
		round++
		m := &model{T: t, e: e, logs: logs, name: fmt.Sprintf("model-%d", round), topics: make([]*commitlog.Topic, len(logs))}
		m.ok(logs[0].CreateTopic(e.ctx, commitlog.TopicConfig{Name: m.name, Partitions: modelPartitions}))
		for i := range logs {
			m.openTopic(i)
		}
		for p := range m.parts {
			m.parts[p].first, m.parts[p].producer = m.bounds(p).First, 42
		}
		actions := map[string]func(*rapid.T){"append": m.append, "read": m.read, "bounds": m.checkBounds, "offsetAt": m.offsetAt, "reopen": m.reopen, "seal": m.seal}
		if hasProducers(e.h.Features) {
			actions["produce"], actions["repeat"] = m.produce, m.repeat
		}
		if strictTrim(e.h.Features) {
			actions["trim"] = m.trim
		}
		names := slices.Sorted(maps.Keys(actions))
		for range e.n(30, 8) {
			actions[rapid.SampledFrom(names).Draw(t, "action")](t)
		}
		for p := range m.parts {
			m.compare(p, m.bounds(p).First, 1<<30)
		}
		m.ok(logs[0].DeleteTopic(e.ctx, m.name))
		failed = false
	})
}

func (m *model) ok(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *model) openTopic(i int) {
	t, err := m.logs[i].Topic(m.e.ctx, m.name)
	m.ok(err)
	m.topics[i] = t
}

func (m *model) topic() *commitlog.Topic { return rapid.SampledFrom(m.topics).Draw(m.T, "handle") }

func (m *model) partition() (int, *modelPartition) {
	p := rapid.IntRange(0, modelPartitions-1).Draw(m.T, "partition")
	return p, &m.parts[p]
}

func (m *model) bounds(p int) commitlog.Bounds {
	b, err := m.topic().Bounds(m.e.ctx, p)
	m.ok(err)
	return b
}

func (m *model) batch() []commitlog.Record {
	recs := make([]commitlog.Record, rapid.IntRange(1, 4).Draw(m.T, "records"))
	for i := range recs {
		m.counter++
		recs[i] = commitlog.Record{
			Timestamp: rapid.Int64Range(1, 50).Draw(m.T, "timestamp"),
			Key:       rapid.SampledFrom([][]byte{nil, {}, []byte("k"), []byte("key\x00")}).Draw(m.T, "key"),
			Value:     append([]byte(fmt.Sprint(m.counter, " ")), make([]byte, rapid.SampledFrom([]int{0, 1, 100, 5000, 70000}).Draw(m.T, "size"))...),
		}
		for range rapid.IntRange(0, 2).Draw(m.T, "headers") {
			recs[i].Headers = append(recs[i].Headers, commitlog.Header{Name: "h", Value: []byte(fmt.Sprint(m.counter))})
		}
	}
	return recs
}

func (m *model) append(*rapid.T) {
	p, _ := m.partition()
	m.add(p, commitlog.Producer{})
}

func (m *model) produce(*rapid.T) {
	p, part := m.partition()
	if first, ok := m.add(p, commitlog.Producer{ID: part.producer, Sequence: part.sequence}); ok {
		part.sequence++
		part.acked = append(part.acked, first)
	}
}

// add appends a batch and learns the offsets of its records, which may have gaps.
func (m *model) add(p int, producer commitlog.Producer) (int64, bool) {
	part, batch, t := &m.parts[p], m.batch(), m.topic()
	first, err := t.Append(m.e.ctx, p, batch, &commitlog.AppendOptions{Producer: producer})
	if m.sealed {
		if !errors.Is(err, commitlog.ErrSealed) {
			m.Fatalf("append to a sealed topic: %v", err)
		}
		return 0, false
	}
	if producer.ID != 0 && part.forgets(m.e.h.Features, err) {
		return 0, false
	}
	m.ok(err)
	if n := len(part.recs); n > 0 && first <= part.recs[n-1].Offset {
		m.Fatalf("append got offset %d after %d", first, part.recs[n-1].Offset)
	}
	b, err := t.Bounds(m.e.ctx, p)
	m.ok(err)
	got, err := read(m.e.ctx, t, p, first, b.Next)
	m.ok(err)
	if len(got) != len(batch) || got[0].Offset != first {
		m.Fatalf("%d records stand from the acked offset %d on; want %d", len(got), first, len(batch))
	}
	for i := range got {
		m.same(got[i], batch[i])
	}
	part.recs = append(part.recs, got...)
	return first, true
}

func (m *model) repeat(*rapid.T) {
	p, part := m.partition()
	if len(part.acked) == 0 {
		return
	}
	seq := rapid.IntRange(0, len(part.acked)-1).Draw(m.T, "sequence")
	first, err := m.topic().Append(m.e.ctx, p, m.batch(), &commitlog.AppendOptions{Producer: commitlog.Producer{ID: part.producer, Sequence: int64(seq)}})
	if part.forgets(m.e.h.Features, err) {
		return
	}
	forgotten := first == -1 && seq < len(part.acked)-commitlog.ProducerWindow
	if err != nil || first != part.acked[seq] && !forgotten {
		m.Fatalf("sequence %d again: %d, %v; want %d", seq, first, err, part.acked[seq])
	}
}

func (m *model) same(got, want commitlog.Record) {
	m.Helper()
	if !same(got, want) {
		m.Fatalf("record %.200q; want %.200q", fmt.Sprint(got), fmt.Sprint(want))
	}
}

func (m *model) read(*rapid.T) {
	p, part := m.partition()
	b := m.bounds(p)
	from := b.Next
	if len(part.recs) > 0 && rapid.Bool().Draw(m.T, "inside") {
		from = max(b.First, part.recs[rapid.IntRange(0, len(part.recs)-1).Draw(m.T, "record")].Offset)
	}
	m.compare(p, from, rapid.SampledFrom([]int{1, 100, 10000, 1 << 20}).Draw(m.T, "budget"))
}

// compare checks one read, or with a large budget all, against the model.
func (m *model) compare(p int, from int64, budget int) {
	m.Helper()
	got, next, err := m.topic().Read(m.e.ctx, p, from, nil, &commitlog.ReadOptions{MaxBytes: budget})
	m.ok(err)
	want := m.parts[p].recs
	for len(want) > 0 && want[0].Offset < from {
		want = want[1:]
	}
	switch {
	case len(got) > len(want) || len(got) == 0 && len(want) > 0:
		m.Fatalf("a read of partition %d from %d gives %d records; the model has %d", p, from, len(got), len(want))
	case len(got) < len(want) && next > want[len(got)].Offset:
		m.Fatalf("a read of partition %d from %d skips offset %d", p, from, want[len(got)].Offset)
	}
	for i := range got {
		if got[i].Offset != want[i].Offset {
			m.Fatalf("record %d of a read from %d has offset %d; want %d", i, from, got[i].Offset, want[i].Offset)
		}
		m.same(got[i], want[i])
	}
}

func (m *model) checkBounds(*rapid.T) {
	p, part := m.partition()
	b := m.bounds(p)
	last := int64(-1)
	if n := len(part.recs); n > 0 {
		last = part.recs[n-1].Offset
	}
	if b.First < part.first || b.Next <= last || b.Sealed != m.sealed || b.First > b.Next {
		m.Fatalf("bounds %+v; the model has first %d, last %d, sealed %v", b, part.first, last, m.sealed)
	}
	if last >= 0 {
		m.ok(m.topic().Wait(m.e.ctx, p, last))
	}
}

func (m *model) offsetAt(*rapid.T) {
	p, part := m.partition()
	millis := rapid.Int64Range(0, 51).Draw(m.T, "millis")
	got, err := m.topic().OffsetAt(m.e.ctx, p, millis)
	m.ok(err)
	want := m.bounds(p).Next
	for _, r := range part.recs {
		if r.Offset >= part.first && r.Timestamp >= millis {
			want = r.Offset
			break
		}
	}
	if got > want || got < want && !m.e.h.Features.CoarseOffsetAt {
		m.Fatalf("offset at %d is %d; want %d", millis, got, want)
	}
}

func (m *model) trim(*rapid.T) {
	p, part := m.partition()
	if len(part.recs) == 0 {
		return
	}
	before := part.recs[rapid.IntRange(0, len(part.recs)-1).Draw(m.T, "record")].Offset
	m.ok(m.topic().Trim(m.e.ctx, p, before))
	part.first = max(part.first, before)
	if got := m.bounds(p).First; got != part.first {
		m.Fatalf("first offset after a trim to %d: %d; want %d", before, got, part.first)
	}
}

func (m *model) seal(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		return
	}
	ends, err := m.topic().Seal(m.e.ctx)
	m.ok(err)
	m.sealed = true
	for p := range m.parts {
		if got := m.bounds(p); got.Next != ends[p] {
			m.Fatalf("the seal says that partition %d ends at %d; bounds say %+v", p, ends[p], got)
		}
	}
}

func (m *model) reopen(t *rapid.T) {
	i := rapid.IntRange(0, len(m.logs)-1).Draw(t, "log")
	m.ok(m.logs[i].Close())
	m.logs[i] = m.e.open()
	m.openTopic(i)
}
