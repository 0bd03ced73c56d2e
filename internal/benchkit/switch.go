package benchkit

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/halt"
)

// SwitchConfig says what to measure; zero fields have defaults.
type SwitchConfig struct {
	Common         // Rounds is how many switches
	Processes  int // that produce; default 4
	Partitions int // of each storage topic; default 8
	Keys       int // of each process; default 100
	InFlight   int // records of each process under way at once; default 256
	Size       int // bytes of a value, at least 8; default 100
	Records    int // to spread over all storage topics, instead of so much time between switches; 0: by For
	Durability ringfence.Durability
}

// switchLimit is how long producers may stand still when a topic is switched, in ms.
const switchLimit = 50

const kindSwitched = "switched" // a producer told how long each of its switches took

// Switch measures how long producers that are at work stand still when their topic is switched to
// the next storage topic. In every other round one of them is stopped by a signal before the switch
// and goes on after it, as if its machine had slept. In the end all records are read and each key
// must have come through in order.
func Switch(ctx context.Context, c SwitchConfig) (_ *Result, err error) {
	c.Common = c.Common.withDefaults()
	setDefault(&c.Processes, 4)
	setDefault(&c.Partitions, 8)
	setDefault(&c.Keys, 100)
	setDefault(&c.InFlight, 256)
	setDefault(&c.Size, 100)
	var d demand
	d.positive("--rounds", c.Rounds)
	d.positive("--processes", c.Processes)
	d.positive("--partitions", c.Partitions)
	d.positive("--keys", c.Keys)
	d.positive("--in-flight", c.InFlight)
	d.that(c.Records >= 0, "--records is %d; expected 0 or more", c.Records)
	d.that(c.Size >= 8, "--size is %d; expected at least 8", c.Size)
	d.that(len(c.Command) > 0, "switch needs a program to start")
	if err := errors.Join(d.errs...); err != nil {
		return nil, err
	}
	dir, rf, end, err := c.aside(ctx, c.Durability)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := rf.EnsureTopic(ctx, "switch", ringfence.TopicConfig{Partitions: c.Partitions}); err != nil {
		return nil, err
	}
	s := switching{c: &c, rf: rf, crew: newCrew(&c.Common, c.Processes, memberJob{}, func(heard) {})}
	s.crew.task = func(i int) task {
		return task{Switch: &switchJob{Dir: dir, Durability: c.Durability, Process: i, Keys: c.Keys, InFlight: c.InFlight, Size: c.Size}}
	}
	defer s.crew.close()
	if err := s.crew.startAll(ctx); err != nil {
		return nil, err
	}
	return s.measure(ctx)
}

// switching is one measurement.
type switching struct {
	c       *SwitchConfig
	rf      *ringfence.Client
	crew    *crew
	stopped []int // by storage topic: the process that slept through the switch to it; -1: none
}

func (s *switching) measure(ctx context.Context) (*Result, error) {
	c := s.c
	s.stopped = []int{-1}
	for round := range c.Rounds {
		if _, err := s.rf.AddStorage(ctx, "switch", c.Partitions); err != nil {
			return nil, err
		}
		if err := s.work(ctx, round); err != nil {
			return nil, err
		}
		if err := s.round(ctx, round); err != nil {
			return nil, err
		}
		c.Logf("switch %d of %d", round+1, c.Rounds)
	}
	if err := s.work(ctx, c.Rounds); err != nil {
		return nil, err
	}
	pauses := make([][]float64, c.Rounds) // of each switch, by process
	var records int64
	for _, a := range s.crew.members {
		if err := a.tell(kindSwitched); err != nil {
			return nil, err
		}
	}
	left := c.Processes
	err := s.crew.until(ctx, "the producers to stop", func(h heard) bool {
		if h.Kind == kindSwitched {
			records += h.Offset
			for storage, ns := range h.Gaps {
				if storage > 0 && storage <= c.Rounds && s.stopped[storage] != h.member {
					pauses[storage-1] = append(pauses[storage-1], float64(ns)/1e6)
				}
			}
			left--
		}
		return left == 0
	})
	if err != nil {
		return nil, err
	}
	broken, err := s.check(ctx, records)
	if err != nil {
		return nil, err
	}
	return s.result(pauses, records, broken)
}

// look is between two looks at how many records there are.
const look = 50 * time.Millisecond

// work lets the producers produce for a while: for some time, or until a storage topic has its share
// of the records that are wanted.
func (s *switching) work(ctx context.Context, round int) error {
	if s.c.Records == 0 {
		return s.crew.pass(ctx, s.c.For)
	}
	for want := int64(s.c.Records) * int64(round+1) / int64(s.c.Rounds+1); ; {
		if err := s.crew.pass(ctx, look); err != nil {
			return err
		}
		info, err := s.rf.DescribeTopic(ctx, "switch")
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
func (s *switching) round(ctx context.Context, round int) error {
	asleep := -1
	if round%2 == 1 {
		asleep = s.c.Processes - 1
		if err := s.sendToSleep(ctx, asleep); err != nil {
			return err
		}
	}
	s.stopped = append(s.stopped, asleep)
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	_, err := s.rf.SwitchProduce(bounded, "switch")
	cancel()
	if asleep >= 0 {
		err = errors.Join(err, s.crew.pass(ctx, 100*time.Millisecond), s.crew.members[asleep].cmd.Process.Signal(unix.SIGCONT))
	}
	return err
}

// sendToSleep stops a producer at a moment at which it does not hold the log's lock: with it, nobody
// else could write either before it goes on.
func (s *switching) sendToSleep(ctx context.Context, i int) error {
	const tries, patience = 50, 300 * time.Millisecond
	process := s.crew.members[i].cmd.Process
	for range tries {
		if err := halt.Process(ctx, process); err != nil {
			return fmt.Errorf("a producer: %w", err)
		}
		written := make(chan error, 1)
		probe := ringfence.Message{Value: make([]byte, 8)} // without a key: it has no place in an order
		s.rf.ProduceAsync(ctx, "switch", probe, nil, func(_ ringfence.Position, err error) { written <- err })
		select {
		case err := <-written:
			return err
		case <-time.After(patience):
		}
		if err := process.Signal(unix.SIGCONT); err != nil {
			return fmt.Errorf("wake a producer: %w", err)
		}
		if err := <-written; err != nil {
			return err
		}
	}
	return fmt.Errorf("a producer was stopped %d times and held the log's lock each time", tries)
}

// check reads everything and counts the records that do not follow their predecessor of the key.
func (s *switching) check(ctx context.Context, records int64) (broken int64, err error) {
	info, err := s.rf.DescribeTopic(ctx, "switch")
	if err != nil {
		return 0, err
	}
	next := map[string]uint64{}
	for _, st := range info.Storage {
		topic, err := s.rf.Log().Topic(ctx, st.Name)
		if err != nil {
			return 0, err
		}
		for _, p := range st.Partitions {
			for at, end := p.First, p.Next; at < end; {
				recs, after, err := topic.Read(ctx, p.Partition, at, nil, nil)
				if err != nil {
					return 0, errors.Join(err, topic.Close())
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
				at = after
			}
		}
		if err := topic.Close(); err != nil {
			return 0, err
		}
	}
	return broken + max(records, -records), nil // lost or doubled ones are no order either
}

func (s *switching) result(pauses [][]float64, records, broken int64) (*Result, error) {
	worst := make([]float64, 0, len(pauses))
	var all []float64
	for i, p := range pauses {
		if len(p) == 0 {
			return nil, fmt.Errorf("no producer told of switch %d", i+1)
		}
		worst, all = append(worst, slices.Max(p)), append(all, p...)
	}
	c := s.c
	row := func(name string, series []float64) Row {
		return Row{Name: name, Unit: "ms", Rounds: series, Median: median(series), Min: slices.Min(series), Max: slices.Max(series)}
	}
	return &Result{
		Bench: "switch",
		About: fmt.Sprintf("%d times, %s with %s under way each, %s to %s, %s, %s records%s", c.Rounds, many(c.Processes, "producer process"),
			many(c.InFlight, "record"), many(c.Partitions, "partition"), many(c.Partitions, "partition"), durabilityName(c.Durability), thousands(records), c.about()),
		Rows: []Row{row("pause of a producer", all), row("pause of the slowest one", worst)},
		Figures: []Figure{
			newFigure("pause of produce at a switch", "ms", worst, switchLimit, true),
			newFigure("records lost, doubled or out of order", "records", []float64{float64(broken)}, 0, true),
		},
		Notes: []string{"a pause is from the last record acknowledged by the old storage topic to the first by the new one",
			"in every other round one producer sleeps through the switch; its pause is left out, its records are not"},
	}, nil
}

func durabilityName(d ringfence.Durability) string {
	if d == "" {
		d = ringfence.Sync
	}
	return "durability " + string(d)
}

// switchJob is a producer that numbers the records of its keys and notes its pauses.
type switchJob struct {
	Dir        string
	Durability ringfence.Durability
	Process    int
	Keys       int
	InFlight   int
	Size       int
}

// pauses knows when records of each storage topic were acknowledged.
type pauses struct {
	mu          sync.Mutex
	first, last map[int]int64 // by storage topic, ns
	err         error
}

func (p *pauses) acked(at ringfence.Position, err error, now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.err = errors.Join(p.err, err)
		return
	}
	if p.first[at.Storage] == 0 {
		p.first[at.Storage] = now
	}
	p.last[at.Storage] = now
}

// gaps are the pauses, by the storage topic that was switched to.
func (p *pauses) gaps() map[int]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	gaps := map[int]int64{}
	for storage, first := range p.first {
		if last := p.last[storage-1]; last != 0 {
			gaps[storage] = first - last
		}
	}
	return gaps
}

// run produces until stdin has a line, and then tells of its pauses.
func (j *switchJob) run(ctx context.Context, at Stores, stdin *bufio.Scanner, out *json.Encoder) (err error) {
	rf, err := at.open(ctx, j.Dir, j.Durability)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rf.Close()) }()
	p := &pauses{first: map[int]int64{}, last: map[int]int64{}}
	var stop atomic.Bool
	sent := make(chan int64, 1)
	go func() { sent <- j.produce(ctx, rf, p, &stop) }() // joined below
	stdin.Scan()
	stop.Store(true)
	count := <-sent
	if p.err != nil {
		return p.err
	}
	return out.Encode(message{Event: &event{Kind: kindSwitched, Partition: -1, Offset: count, Gaps: p.gaps()}})
}

func (j *switchJob) produce(ctx context.Context, rf *ringfence.Client, p *pauses, stop *atomic.Bool) int64 {
	keys := make([][]byte, j.Keys)
	for k := range keys {
		keys[k] = fmt.Appendf(nil, "p%d-k%d", j.Process, k)
	}
	window := make(chan struct{}, j.InFlight)
	began := time.Now()
	n := int64(0)
	for ; !stop.Load() && ctx.Err() == nil; n++ {
		value := make([]byte, j.Size)
		binary.LittleEndian.PutUint64(value, uint64(n)/uint64(j.Keys))
		window <- struct{}{}
		m := ringfence.Message{Key: keys[n%int64(j.Keys)], Value: value}
		rf.ProduceAsync(ctx, "switch", m, nil, func(at ringfence.Position, err error) {
			p.acked(at, err, int64(time.Since(began))+1)
			<-window
		})
	}
	for range j.InFlight {
		window <- struct{}{} // all are acknowledged
	}
	return n
}
