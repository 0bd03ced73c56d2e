package logtest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ringfence/ringfence/commitlog"
)

var producerTests = []test{
	{"Producer/ARepeatedSequenceIsStoredOnce", hasProducers, produceTwice},
	{"Producer/AGapIsRefused", hasProducers, produceGap},
	{"Producer/PartitionsAndIdsCountForThemselves", hasProducers, produceIndependently},
	{"Producer/ADuplicateInFlightIsStoredOnce", hasProducers, produceInFlight},
	{"Producer/ConcurrentDuplicatesAreStoredOnce", hasProducers, produceConcurrently},
	{"Producer/AHigherEpochFencesTheLower", hasProducers, produceFenced},
	{"Producer/AHigherEpochFencesInAllPartitions", topicEpochs, produceFencedEverywhere},
	{"Producer/ADuplicateOfAHigherEpochFences", topicEpochs, produceFencedByADuplicate},
	{"Producer/IsNeverForgottenInSilence", hasProducers, produceAmongMany},
	{"Producer/IsRememberedAfterReopening", hasProducers, produceReopened},
	{"Producer/ADuplicateIsAckedAfterTheSeal", hasProducers, produceSealed},
	{"Producer/ADuplicateIsAckedAfterTheSealByAnybody", hasProducers, produceSealedAnew},
	{"Producer/APipelineGoesOnAfterARefusal", hasProducers, producePipeline},
}

func produce(e *env, t *commitlog.Topic, partition int, p commitlog.Producer, values ...string) (int64, error) {
	return t.Append(e.ctx, partition, records(values...), &commitlog.AppendOptions{Producer: p})
}

func produceTwice(e *env) {
	_, a, b := e.two(1)
	var firsts []int64
	n := e.n(20, 4)
	for seq := range n {
		p := commitlog.Producer{ID: 9, Sequence: int64(seq)}
		first, err := produce(e, a, 0, p, fmt.Sprint(seq), "second of the batch")
		e.must(err)
		firsts = append(firsts, first)
		for _, t := range []*commitlog.Topic{a, b} {
			again, err := produce(e, t, 0, p, fmt.Sprint(seq), "second of the batch")
			if err != nil || again != first {
				e.Fatalf("sequence %d again: %d, %v; want %d", seq, again, err, first)
			}
		}
	}
	for seq := range n {
		again, err := produce(e, b, 0, commitlog.Producer{ID: 9, Sequence: int64(seq)}, fmt.Sprint(seq), "second of the batch")
		if err != nil || again != firsts[seq] && (again != -1 || seq >= n-commitlog.ProducerWindow) {
			e.Errorf("sequence %d at the end: %d, %v; want %d", seq, again, err, firsts[seq])
		}
	}
	if got := e.all(a, 0); len(got) != 2*n {
		e.Errorf("%d records; want %d", len(got), 2*n)
	}
}

func produceGap(e *env) {
	t := e.topic(e.log(), 1)
	e.wantIs(errOf(produce(e, t, 0, commitlog.Producer{ID: 1, Sequence: 1}, "starts too late")), commitlog.ErrInvalid)
	e.must(errOf(produce(e, t, 0, commitlog.Producer{ID: 1, Sequence: 0}, "a")))
	e.wantIs(errOf(produce(e, t, 0, commitlog.Producer{ID: 1, Sequence: 2}, "leaves one out")), commitlog.ErrInvalid)
	e.must(errOf(produce(e, t, 0, commitlog.Producer{ID: 1, Sequence: 1}, "b")))
	e.wantValues(e.all(t, 0), "a", "b")
}

func produceIndependently(e *env) {
	t := e.topic(e.log(), 2)
	for seq := range int64(5) {
		for id := range uint64(3) {
			for p := range 2 {
				e.must(errOf(produce(e, t, p, commitlog.Producer{ID: 1 + id, Sequence: seq}, "x")))
			}
		}
	}
	for p := range 2 {
		if got := e.all(t, p); len(got) != 15 {
			e.Errorf("partition %d has %d records; want 15", p, len(got))
		}
	}
}

func produceInFlight(e *env) {
	t := e.topic(e.log(), 1)
	n := e.n(200, 20)
	firsts := make([]int64, 2*n)
	var wg sync.WaitGroup
	for i := range 2 * n {
		wg.Add(1)
		opts := &commitlog.AppendOptions{Producer: commitlog.Producer{ID: 4, Sequence: int64(i / 2)}}
		t.AppendAsync(e.ctx, 0, records(fmt.Sprint(i/2)), opts, func(first int64, err error) {
			defer wg.Done()
			if err != nil {
				e.Errorf("sequence %d: %v", i/2, err)
			}
			firsts[i] = first
		})
	}
	wg.Wait()
	for i := 0; i < 2*n; i += 2 {
		if firsts[i] != firsts[i+1] {
			e.Errorf("sequence %d was acked at %d and at %d", i/2, firsts[i], firsts[i+1])
		}
	}
	if got := e.all(t, 0); len(got) != n {
		e.Errorf("%d records; want %d", len(got), n)
	}
}

func produceConcurrently(e *env) {
	_, a, b := e.two(1)
	n := e.n(30, 5)
	for seq := range n {
		var wg sync.WaitGroup
		firsts := make([]int64, 4)
		for i := range firsts {
			wg.Go(func() {
				first, err := produce(e, []*commitlog.Topic{a, b}[i%2], 0, commitlog.Producer{ID: 5, Sequence: int64(seq)}, fmt.Sprint(seq))
				if err != nil {
					e.Errorf("sequence %d: %v", seq, err)
				}
				firsts[i] = first
			})
		}
		wg.Wait()
		for _, first := range firsts {
			if first != firsts[0] {
				e.Fatalf("sequence %d was acked at %v", seq, firsts)
			}
		}
	}
	if got := e.upTo(b, 0, e.first(b, 0), e.bounds(a, 0).Next); len(got) != n {
		e.Errorf("%d records; want %d", len(got), n)
	}
}

func produceFenced(e *env) {
	_, a, b := e.two(1)
	e.must(errOf(produce(e, a, 0, commitlog.Producer{ID: 6, Epoch: 1, Sequence: 0}, "a")))
	e.must(errOf(produce(e, b, 0, commitlog.Producer{ID: 6, Epoch: 2, Sequence: 1}, "b")))
	for _, seq := range []int64{1, 2} {
		e.wantIs(errOf(produce(e, a, 0, commitlog.Producer{ID: 6, Epoch: 1, Sequence: seq}, "of the old epoch")), commitlog.ErrFenced)
	}
	e.must(errOf(produce(e, a, 0, commitlog.Producer{ID: 6, Epoch: 2, Sequence: 2}, "c")))
	e.wantValues(e.all(a, 0), "a", "b", "c")
}

// An ID has one owner, whatever partitions it appends to; and so it is after reopening.
func produceFencedEverywhere(e *env) {
	l := e.open()
	t := e.topic(l, 3)
	for part := range 2 {
		e.must(errOf(produce(e, t, part, commitlog.Producer{ID: 11, Epoch: 1, Sequence: 0}, "a")))
	}
	e.must(errOf(produce(e, t, 0, commitlog.Producer{ID: 11, Epoch: 2, Sequence: 1}, "b")))
	stale := func() {
		e.Helper()
		for part, sequence := range []int64{2, 1, 0} {
			e.wantIs(errOf(produce(e, t, part, commitlog.Producer{ID: 11, Epoch: 1, Sequence: sequence}, "of the old epoch")), commitlog.ErrFenced)
		}
	}
	stale()
	e.must(l.Close())
	t = e.openTopic(e.log())
	stale()
	e.must(errOf(produce(e, t, 1, commitlog.Producer{ID: 11, Epoch: 2, Sequence: 1}, "b")))
	for part, want := range [][]string{{"a", "b"}, {"a", "b"}, {}} {
		e.wantValues(e.all(t, part), want...)
	}
}

// A producer that takes over repeats what it knows no answer to. What its other life still sends
// would be taken for its own next append.
func produceFencedByADuplicate(e *env) {
	_, a, b := e.two(2)
	first, err := produce(e, a, 0, commitlog.Producer{ID: 12, Epoch: 1, Sequence: 0}, "a")
	e.must(err)
	if again, err := produce(e, b, 0, commitlog.Producer{ID: 12, Epoch: 2, Sequence: 0}, "a"); err != nil || again != first {
		e.Errorf("a duplicate of a higher epoch: %d, %v; want %d", again, err, first)
	}
	for part, sequence := range []int64{1, 0} {
		e.wantIs(errOf(produce(e, a, part, commitlog.Producer{ID: 12, Epoch: 1, Sequence: sequence}, "of the old epoch")), commitlog.ErrFenced)
	}
	second, err := produce(e, b, 0, commitlog.Producer{ID: 12, Epoch: 2, Sequence: 1}, "b")
	e.must(err)
	if again, err := produce(e, a, 0, commitlog.Producer{ID: 12, Epoch: 2, Sequence: 1}, "b"); err != nil || again != second {
		e.Errorf("a duplicate behind a change of epochs: %d, %v; want %d", again, err, second)
	}
	e.wantValues(e.all(b, 0), "a", "b")
	e.wantValues(e.all(b, 1))
}

// A log may forget a producer, but not take its first append for that of a new one.
func produceAmongMany(e *env) {
	t := e.topic(e.log(), 1)
	early := commitlog.Producer{ID: commitlog.NewProducerID()}
	e.must(errOf(produce(e, t, 0, early, "early")))
	n := e.n(5000, 20)
	var others sync.WaitGroup
	for range n {
		others.Add(1)
		opts := &commitlog.AppendOptions{Producer: commitlog.Producer{ID: commitlog.NewProducerID()}}
		t.AppendAsync(e.ctx, 0, records("other"), opts, func(_ int64, err error) {
			defer others.Done()
			if err != nil {
				e.Errorf("a new producer: %v", err)
			}
		})
	}
	others.Wait()
	if _, err := produce(e, t, 0, early, "early"); err != nil && !errors.Is(err, commitlog.ErrForgotten) {
		e.Errorf("the first producer again: %v; want the offset or %v", err, commitlog.ErrForgotten)
	}
	if got := e.all(t, 0); len(got) != n+1 {
		e.Errorf("%d records; want %d", len(got), n+1)
	}
}

func produceReopened(e *env) {
	l := e.open()
	t := e.topic(l, 2)
	p := func(seq int64) commitlog.Producer { return commitlog.Producer{ID: 7, Epoch: 3, Sequence: seq} }
	var firsts [2]int64
	for seq := range int64(3) {
		for part := range 2 {
			first, err := produce(e, t, part, p(seq), fmt.Sprint(seq))
			e.must(err)
			firsts[part] = first
		}
	}
	e.must(l.Close())
	t = e.openTopic(e.log())
	for part := range 2 {
		again, err := produce(e, t, part, p(2), "2")
		if err != nil || again != firsts[part] {
			e.Errorf("the last sequence again after reopening: %d, %v; want %d", again, err, firsts[part])
		}
		e.wantIs(errOf(produce(e, t, part, p(4), "gap")), commitlog.ErrInvalid)
		e.wantIs(errOf(produce(e, t, part, commitlog.Producer{ID: 7, Epoch: 2, Sequence: 3}, "old epoch")), commitlog.ErrFenced)
		e.must(errOf(produce(e, t, part, p(3), "3")))
		e.wantValues(e.all(t, part), "0", "1", "2", "3")
	}
}

// A producer that lost the answer must learn it, also when the topic was sealed meanwhile: it
// would append to the next topic otherwise, and the record would be there twice.
func produceSealed(e *env) {
	_, a, b := e.two(1)
	first, err := produce(e, a, 0, commitlog.Producer{ID: 8, Sequence: 0}, "x")
	e.must(err)
	e.must(errOf(b.Seal(e.ctx)))
	again, err := produce(e, a, 0, commitlog.Producer{ID: 8, Sequence: 0}, "x")
	if err != nil || again != first {
		e.Errorf("a duplicate after the seal: %d, %v; want %d", again, err, first)
	}
	e.wantIs(errOf(produce(e, a, 0, commitlog.Producer{ID: 8, Sequence: 1}, "y")), commitlog.ErrSealed)
	e.wantValues(e.all(a, 0), "x")
}

// So it must be told by a process that never saw the producer: it is all that one has that was started
// again after a switch. What is said to be absent is stored elsewhere.
func produceSealedAnew(e *env) {
	l := e.open()
	t := e.topic(l, 2)
	var firsts []int64
	for sequence := range int64(3) {
		first, err := produce(e, t, 0, commitlog.Producer{ID: 13, Sequence: sequence}, fmt.Sprint(sequence), "second of the batch")
		e.must(err)
		firsts = append(firsts, first)
	}
	e.must(errOf(produce(e, t, 0, commitlog.Producer{ID: 14}, "of another")))
	e.must(errOf(t.Seal(e.ctx)))
	e.must(l.Close())
	for _, order := range [][]int64{{2, 1, 0}, {0, 1, 2}} {
		l = e.open()
		t = e.openTopic(l)
		for _, sequence := range order {
			again, err := produce(e, t, 0, commitlog.Producer{ID: 13, Sequence: sequence}, fmt.Sprint(sequence), "second of the batch")
			if err != nil || again != firsts[sequence] && again != -1 {
				e.Errorf("sequence %d after the seal: %d, %v; want %d", sequence, again, err, firsts[sequence])
			}
		}
		for _, absent := range []struct {
			partition int
			producer  commitlog.Producer
		}{{0, commitlog.Producer{ID: 13, Sequence: 3}}, {1, commitlog.Producer{ID: 13}}, {0, commitlog.Producer{ID: 15}}, {1, commitlog.Producer{ID: 15}}} {
			e.wantIs(errOf(produce(e, t, absent.partition, absent.producer, "absent")), commitlog.ErrSealed)
		}
		e.must(l.Close())
	}
	t = e.openTopic(e.log())
	e.wantValues(e.all(t, 0), "0", "second of the batch", "1", "second of the batch", "2", "second of the batch", "of another")
	e.wantValues(e.all(t, 1))
}

// When one of a pipeline is refused, those behind it leave a gap and are refused too; sent again
// in order, all are stored once.
func producePipeline(e *env) {
	t := e.topic(e.log(), 1)
	opts := func(seq int) *commitlog.AppendOptions {
		return &commitlog.AppendOptions{Producer: commitlog.Producer{ID: 10, Sequence: int64(seq)}}
	}
	errs := make([]error, 10)
	var wg sync.WaitGroup
	for seq := range errs {
		if seq == 4 {
			continue // lost on the way
		}
		wg.Add(1)
		t.AppendAsync(e.ctx, 0, records(fmt.Sprint(seq)), opts(seq), func(_ int64, err error) {
			defer wg.Done()
			errs[seq] = err
		})
	}
	wg.Wait()
	for seq, err := range errs {
		if seq > 4 && !errors.Is(err, commitlog.ErrInvalid) || seq < 4 && err != nil {
			e.Errorf("sequence %d: %v", seq, err)
		}
	}
	var want []string
	for seq := range errs {
		e.must(errOf(t.Append(e.ctx, 0, records(fmt.Sprint(seq)), opts(seq))))
		want = append(want, fmt.Sprint(seq))
	}
	e.wantValues(e.all(t, 0), want...)
}
