package benchkit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/measure"
)

// switches measures how long producers that are at work stand still when their topic is switched to
// the next storage topic. In every other round one of them is stopped by a signal before the switch
// and goes on after it, as if its machine had slept. In the end all records are read and each key
// must have come through in order.
type switches struct {
	Records    int // to spread over all storage topics, instead of so much time between switches
	Processes  int
	Partitions int
	Keys       int
	InFlight   int
	Size       int
}

const (
	switchTopic  = "switch"
	kindSwitched = "switched" // a producer told how long each of its switches took
)

func (c *switches) settings(s *settings) {
	s.rounds("switches")
	s.time(time.Second, "time between two switches")
	s.number(&c.Records, "records", 0, 0, "switch so that about so many records are spread over the storage topics, whatever time it takes (0: by --for)")
	s.number(&c.Processes, "processes", 4, 1, "producer processes")
	s.number(&c.Partitions, "partitions", 8, 1, "partitions of each storage topic")
	s.number(&c.Keys, "keys", 100, 1, "keys of each process")
	s.number(&c.InFlight, "in-flight", 256, 1, "records of each process under way at once")
	s.number(&c.Size, "size", 100, 8, "`bytes` of a record's value")
	s.program("switch")
}

// switching is a run of switches.
type switching struct {
	*switches
	*run
	rf      *ringfence.Client
	crew    *crew
	stopped []int // by storage topic: the process that slept through the switch to it; -1: none
}

func (c *switches) measure(ctx context.Context, r *run) (err error) {
	durability := r.Durability
	if durability == "" {
		durability = ringfence.Sync
	}
	m := &switching{switches: c, run: r, stopped: []int{-1}}
	if m.rf, err = r.open(ctx, "", durability); err != nil {
		return err
	}
	if err := m.rf.EnsureTopic(ctx, switchTopic, ringfence.TopicConfig{Partitions: c.Partitions}); err != nil {
		return err
	}
	m.crew = r.crew(c.Processes, func(i int) harness.Job {
		return &switchJob{Dir: r.dir, Durability: durability, Process: i, Keys: c.Keys, InFlight: c.InFlight, Size: c.Size}
	}, nil)
	if err := m.crew.startAll(ctx); err != nil {
		return err
	}
	for round := range r.Rounds {
		if _, err := m.rf.AddStorage(ctx, switchTopic, c.Partitions); err != nil {
			return err
		}
		if err := m.work(ctx, round); err != nil {
			return err
		}
		if err := m.round(ctx, round); err != nil {
			return err
		}
		r.Bench.Logf("switch %d of %d", round+1, r.Rounds)
	}
	if err := m.work(ctx, r.Rounds); err != nil {
		return err
	}
	pauses := make([][]float64, r.Rounds) // of each switch, by process
	var records int64
	err = m.crew.ask(ctx, kindSwitched, -1, func(h heard) {
		records += h.Offset
		for storage, ns := range h.Gaps {
			if storage > 0 && storage <= r.Rounds && m.stopped[storage] != h.member {
				pauses[storage-1] = append(pauses[storage-1], float64(ns)/1e6)
			}
		}
	})
	if err != nil {
		return err
	}
	broken, err := m.check(ctx, records)
	if err != nil {
		return err
	}
	var worst, all []float64
	for i, p := range pauses {
		if len(p) == 0 {
			return fmt.Errorf("no producer told of switch %d", i+1)
		}
		worst, all = append(worst, slices.Max(p)), append(all, p...)
	}
	r.res.Rows = []measure.Row{measure.NewRow("pause of a producer", "ms", all), measure.NewRow("pause of the slowest one", "ms", worst)}
	r.Show("switch", "ms", 0, worst)
	r.Show("order", "records", 0, []float64{float64(broken)})
	r.res.Notes = []string{
		"a pause is from the last record acknowledged by the old storage topic to the first by the new one",
		"in every other round one producer sleeps through the switch; its pause is left out, its records are not",
	}
	return r.done("%d times, %s with %s under way each, %s to %[4]s, durability %s, %s", r.Rounds, measure.Many(c.Processes, "producer process"),
		measure.Many(c.InFlight, "record"), measure.Many(c.Partitions, "partition"), durability, measure.Many(records, "record"))
}

// work lets the producers produce for a while: for some time, or until a storage topic has its share
// of the records that are wanted.
func (m *switching) work(ctx context.Context, round int) error {
	if m.Records == 0 {
		return m.crew.pass(ctx, m.For)
	}
	for want := int64(m.Records) * int64(round+1) / int64(m.Rounds+1); ; {
		if err := m.crew.pass(ctx, 50*time.Millisecond); err != nil {
			return err
		}
		info, err := m.rf.DescribeTopic(ctx, switchTopic)
		if err != nil {
			return err
		}
		stored := int64(0)
		for _, st := range info.Storage {
			for _, p := range st.Partitions {
				stored += p.Next - p.First
			}
		}
		if stored >= want {
			return nil
		}
	}
}

// round switches once, in every other round with a producer that sleeps through it.
func (m *switching) round(ctx context.Context, round int) error {
	asleep := -1
	if round%2 == 1 {
		asleep = m.Processes - 1
		if err := m.sendToSleep(ctx, m.crew.members[asleep]); err != nil {
			return err
		}
	}
	m.stopped = append(m.stopped, asleep)
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	_, err := m.rf.SwitchProduce(bounded, switchTopic)
	cancel()
	if asleep >= 0 {
		err = errors.Join(err, m.crew.pass(ctx, 100*time.Millisecond), m.crew.members[asleep].Thaw())
	}
	return err
}

// sendToSleep stops a producer at a moment at which it does not hold the log's lock: with it, nobody
// else could write either before it goes on.
func (m *switching) sendToSleep(ctx context.Context, producer *harness.Child) error {
	const tries, patience = 50, 300 * time.Millisecond
	for range tries {
		if err := producer.Freeze(ctx); err != nil {
			return fmt.Errorf("a producer: %w", err)
		}
		written := make(chan error, 1)
		probe := ringfence.Message{Value: make([]byte, 8)} // without a key: it has no place in an order
		m.rf.ProduceAsync(ctx, switchTopic, probe, nil, func(_ ringfence.Position, err error) { written <- err })
		select {
		case err := <-written:
			return err
		case <-time.After(patience):
		}
		if err := producer.Thaw(); err != nil {
			return fmt.Errorf("wake a producer: %w", err)
		}
		if err := <-written; err != nil {
			return err
		}
	}
	return fmt.Errorf("a producer was stopped %d times and held the log's lock each time", tries)
}

// check reads everything and counts the records that do not follow their predecessor of the key.
func (m *switching) check(ctx context.Context, records int64) (broken int64, err error) {
	info, err := m.rf.DescribeTopic(ctx, switchTopic)
	if err != nil {
		return 0, err
	}
	next := map[string]uint64{}
	for _, st := range info.Storage {
		topic, err := m.rf.Log().Topic(ctx, st.Name)
		if err != nil {
			return 0, err
		}
		m.later(topic.Close)
		var recs []commitlog.Record
		for _, p := range st.Partitions {
			for at, end := p.First, p.Next; at < end; {
				if recs, at, err = topic.Read(ctx, p.Partition, at, recs[:0], nil); err != nil {
					return 0, err
				}
				for _, r := range recs {
					if r.Key == nil {
						continue
					}
					n := binary.LittleEndian.Uint64(r.Value)
					if n != next[string(r.Key)] {
						broken++
					}
					next[string(r.Key)] = n + 1
					records--
				}
			}
		}
	}
	return broken + max(records, -records), nil // lost or doubled ones are no order either
}

// switchJob is a producer that numbers the records of its keys and notes its pauses.
type switchJob struct {
	Dir        string
	Durability ringfence.Durability
	Process    int
	Keys       int
	InFlight   int
	Size       int

	at          Stores
	mu          sync.Mutex
	first, last map[int]int64 // by storage topic: when its first and its last record were acknowledged, ns
}

// acked notes that a record was acknowledged by a storage topic.
func (j *switchJob) acked(storage int, now int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.first[storage] == 0 {
		j.first[storage] = now
	}
	j.last[storage] = now
}

// Run produces until it hears something, and then tells of its pauses, by the storage topic that was
// switched to.
func (j *switchJob) Run(ctx context.Context, t *harness.Talk) (err error) {
	rf, err := j.at.open(ctx, j.Dir, j.Durability)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rf.Close()) }()
	j.first, j.last = map[int]int64{}, map[int]int64{}
	keys := make([][]byte, j.Keys)
	for k := range keys {
		keys[k] = fmt.Appendf(nil, "p%d-k%d", j.Process, k)
	}
	var stop atomic.Bool
	go func() { // ends before the window is empty
		t.Hear()
		stop.Store(true)
	}()
	w := measure.NewWindow(j.InFlight)
	began := time.Now()
	sent, err := w.Fill(func(int) bool { return !stop.Load() && ctx.Err() == nil }, func(n int) {
		value := make([]byte, j.Size)
		binary.LittleEndian.PutUint64(value, uint64(n/j.Keys))
		rf.ProduceAsync(ctx, switchTopic, ringfence.Message{Key: keys[n%j.Keys], Value: value}, nil, func(at ringfence.Position, err error) {
			if err == nil {
				j.acked(at.Storage, int64(time.Since(began))+1)
			}
			w.Leave(err)
		})
	})
	if err != nil {
		return err
	}
	gaps := map[int]int64{}
	for storage, first := range j.first {
		if last := j.last[storage-1]; last != 0 {
			gaps[storage] = first - last
		}
	}
	return t.Say(event{Kind: kindSwitched, Partition: -1, Offset: sent, Gaps: gaps})
}
