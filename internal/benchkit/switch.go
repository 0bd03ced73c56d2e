package benchkit

import (
	"cmp"
	"context"
	"encoding/binary"
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
	Records    int `default:"0" least:"0" usage:"switch so that about so many records are spread over the storage topics, whatever time it takes (0: by --for)"`
	Processes  int `default:"4" usage:"producer processes"`
	Partitions int `default:"8" usage:"partitions of each storage topic"`
	Keys       int `default:"100" usage:"keys of each process"`
	InFlight   int `default:"256" usage:"records of each process under way at once"`
	Size       int `default:"100" least:"8" usage:"<bytes> of a record's value"`
}

const (
	switchTopic  = "switch"
	kindSwitched = "switched" // a producer told how long each of its switches took
)

// switching is a run of switches.
type switching struct {
	*switches
	*run
	rf      *ringfence.Client
	crew    *crew
	stopped []int // by storage topic: the process that slept through the switch to it; -1: none
}

func (c *switches) measure(ctx context.Context, r *run) {
	durability := cmp.Or(r.Durability, ringfence.Sync)
	m := &switching{switches: c, run: r, stopped: []int{-1}, rf: r.open(ctx, "", durability)}
	check(m.rf.EnsureTopic(ctx, switchTopic, ringfence.TopicConfig{Partitions: c.Partitions}))
	m.crew = r.crew(ctx, r.Script, c.Processes, func(i int) harness.Job {
		return &switchJob{site: site{Dir: r.dir, Durability: durability}, Process: i, Keys: c.Keys, InFlight: c.InFlight, Size: c.Size}
	}, nil)
	for round := range r.Rounds {
		must(m.rf.AddStorage(ctx, switchTopic, c.Partitions))
		m.work(ctx, round)
		m.round(ctx, round)
		r.Logf("switch %d of %d", round+1, r.Rounds)
	}
	m.work(ctx, r.Rounds)
	pauses := make([][]float64, r.Rounds) // of each switch, by process
	var records int64
	m.crew.ask(ctx, kindSwitched, -1, func(h heard) {
		records += h.Offset
		for storage, ns := range h.Gaps {
			if storage > 0 && storage <= r.Rounds && m.stopped[storage] != h.member {
				pauses[storage-1] = append(pauses[storage-1], float64(ns)/1e6)
			}
		}
	})
	broken := m.check(ctx, records)
	var worst, all []float64
	for i, p := range pauses {
		if len(p) == 0 {
			check(fmt.Errorf("no producer told of switch %d", i+1))
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
	r.done("%d times, %s with %s under way each, %s to %[4]s, durability %s, %s", r.Rounds, measure.Many(c.Processes, "producer process"),
		measure.Many(c.InFlight, "record"), measure.Many(c.Partitions, "partition"), durability, measure.Many(records, "record"))
}

// work lets the producers produce for a while: for some time, or until a storage topic has its share
// of the records that are wanted.
func (m *switching) work(ctx context.Context, round int) {
	if m.Records == 0 {
		m.crew.pass(ctx, m.For)
		return
	}
	for want, stored := int64(m.Records)*int64(round+1)/int64(m.Rounds+1), int64(0); stored < want; {
		m.crew.pass(ctx, 50*time.Millisecond)
		stored = 0
		for _, st := range must(m.rf.DescribeTopic(ctx, switchTopic)).Storage {
			for _, p := range st.Partitions {
				stored += p.Next - p.First
			}
		}
	}
}

// round switches once, in every other round with a producer that sleeps through it.
func (m *switching) round(ctx context.Context, round int) {
	asleep := -1
	if round%2 == 1 {
		asleep = m.Processes - 1
		m.sendToSleep(ctx, m.crew.members[asleep])
	}
	m.stopped = append(m.stopped, asleep)
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	must(m.rf.SwitchProduce(bounded, switchTopic))
	if asleep >= 0 {
		m.crew.pass(ctx, 100*time.Millisecond)
		check(m.crew.members[asleep].Thaw())
	}
}

// sendToSleep stops a producer at a moment at which it does not hold the log's lock: with it, nobody
// else could write either before it goes on.
func (m *switching) sendToSleep(ctx context.Context, producer *harness.Child) {
	const tries, patience = 50, 300 * time.Millisecond
	for range tries {
		check(producer.Freeze(ctx))
		written := make(chan error, 1)
		probe := ringfence.Message{Value: make([]byte, 8)} // without a key: it has no place in an order
		m.rf.ProduceAsync(ctx, switchTopic, probe, nil, func(_ ringfence.Position, err error) { written <- err })
		select {
		case err := <-written:
			check(err)
			return
		case <-time.After(patience):
		}
		check(producer.Thaw())
		check(<-written)
	}
	check(fmt.Errorf("a producer was stopped %d times and held the log's lock each time", tries))
}

// check reads everything and counts the records that do not follow their predecessor of the key.
func (m *switching) check(ctx context.Context, records int64) (broken int64) {
	next := map[string]uint64{}
	for _, st := range must(m.rf.DescribeTopic(ctx, switchTopic)).Storage {
		topic := must(m.rf.Log().Topic(ctx, st.Name))
		m.Later(topic.Close)
		for _, p := range st.Partitions {
			readAll(ctx, topic, p.Partition, nil, func(recs []commitlog.Record) {
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
			})
		}
	}
	return broken + max(records, -records) // lost or doubled ones are no order either
}

// switchJob is a producer that numbers the records of its keys and notes its pauses.
type switchJob struct {
	site
	Process  int
	Keys     int
	InFlight int
	Size     int

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
func (j *switchJob) Run(ctx context.Context, t *harness.Talk) error {
	return measure.Try(func(s *measure.Script) {
		rf := j.open(ctx, s)
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
		sent := w.Fill(func(int) bool { return !stop.Load() && ctx.Err() == nil }, func(n int) {
			value := make([]byte, j.Size)
			binary.LittleEndian.PutUint64(value, uint64(n/j.Keys))
			rf.ProduceAsync(ctx, switchTopic, ringfence.Message{Key: keys[n%j.Keys], Value: value}, nil, func(at ringfence.Position, err error) {
				if err == nil {
					j.acked(at.Storage, int64(time.Since(began))+1)
				}
				w.Leave(err)
			})
		})
		gaps := map[int]int64{}
		for storage, first := range j.first {
			if last := j.last[storage-1]; last != 0 {
				gaps[storage] = first - last
			}
		}
		check(t.Say(event{Kind: kindSwitched, Partition: -1, Offset: sent, Gaps: gaps}))
	})
}
