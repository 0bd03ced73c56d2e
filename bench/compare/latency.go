package compare

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/internal/script"
)

// Latency measures from just before the produce call of one process to the handler in another,
// at a steady rate, beside NATS over TCP with its server in a third process.
func Latency(ctx context.Context, _ *script.Script, c Config, emit func(*measure.Report)) {
	fmt.Fprintln(c.Progress, "latency …")
	game := c.contest("latency", "µs, median")
	game.lower = true
	for _, name := range []string{peer.Ringfence, "nats"} {
		game.enter(name, func(t *measure.Turn) float64 {
			c.handOver(ctx, name, t)
			return t.Latency.Micros(0.5)
		})
	}
	emit(game.report(c.Rounds, "produce to the handler in another process, page cache, %d records/s of %d bytes, %s", c.Rate, c.Size, measure.Many(c.Rounds, "round")))
}

// handOver produces to a consuming process for a turn, for NATS through a server in a third one.
func (c Config) handOver(ctx context.Context, name string, t *measure.Turn) {
	k := task{Peer: name, Records: max(int64(float64(c.Rate)*c.Turn.Seconds()), 1), Dir: c.folder(t.Script)}
	if k.Peer == "nats" {
		check(start(ctx, t.Script, &serveJob{k}).Hear(&k.URL))
	}
	consumer := start(ctx, t.Script, &consumeJob{task: k})
	check(consumer.Hear(new(bool))) // it is ready
	add := k.producer(ctx, t.Script)
	value := payload(max(c.Size, 8))
	measure.Pace(ctx, time.Second/time.Duration(c.Rate), int(k.Records), func(int) {
		binary.LittleEndian.PutUint64(value, uint64(history.Now()))
		add(value)
	})
	check(consumer.Hear(&t.Latency)) // it is empty
	if n := int64(len(t.Latency)); n != k.Records {
		check(fmt.Errorf("%s handed over %d of %d records", k.Peer, n, k.Records))
	}
}

// childCommand is the argument that makes the program one of the processes of a measurement.
const childCommand = "bench-child"

// Child does the job of a child process, when the arguments of this process ask for one.
func Child(ctx context.Context, args []string) (asked bool, err error) {
	if len(args) != 3 || args[1] != childCommand {
		return false, nil
	}
	return true, harness.RunJob(ctx, args[2], os.Stdin, os.Stdout, &serveJob{}, &consumeJob{})
}

// start starts this program again as a child, until the script ends.
func start(ctx context.Context, s *script.Script, job harness.Job) *harness.Child {
	p := must(harness.StartChild(ctx, []string{must(os.Executable()), childCommand}, nil, job))
	s.Later(func() error { p.End(); return nil })
	return p
}

// task is the part of a child process in a measurement.
type task struct {
	Peer    string
	Dir     string
	URL     string // of a server that runs already
	Records int64
}

// topicName is the topic and the group of the front door.
const topicName = "bench"

// open opens a client and its topic of one partition.
func (k *task) open(ctx context.Context, s *script.Script) *ringfence.Client {
	rf := must(ringfence.Open(ctx, ringfence.Config{Dir: k.Dir, Durability: ringfence.OS}))
	s.Later(rf.Close)
	check(rf.EnsureTopic(ctx, topicName, ringfence.TopicConfig{Partitions: 1}))
	return rf
}

// producer appends one value after another and waits for each ack.
func (k *task) producer(ctx context.Context, s *script.Script) (add func([]byte)) {
	if k.Peer == "nats" {
		js := peer.ConnectNATS(ctx, s, k.URL)
		return func(v []byte) { must(js.Publish(ctx, peer.NATSSubject, v)) }
	}
	rf := k.open(ctx, s)
	return func(v []byte) { must(rf.Produce(ctx, topicName, ringfence.Message{Value: v})) }
}

// serveJob is the server process of NATS.
type serveJob struct{ task }

// Run says where it listens, and serves until its starter is gone.
func (j *serveJob) Run(_ context.Context, t *harness.Talk) error {
	return script.Try(func(s *script.Script) {
		check(t.Say(peer.StartNATS(s, j.Dir, false, -1).ClientURL()))
		t.Hear()
	})
}

// consumeJob is the consuming process: it says when it is ready, and in the end how old the records were.
type consumeJob struct {
	task
	ages measure.Samples
}

// arrive takes one value; true when it was the last.
func (j *consumeJob) arrive(value []byte) bool {
	j.ages.Add(time.Duration(history.Now() - int64(binary.LittleEndian.Uint64(value))))
	return int64(len(j.ages)) >= j.Records
}

// Run consumes until all has come.
func (j *consumeJob) Run(ctx context.Context, t *harness.Talk) error {
	return script.Try(func(s *script.Script) {
		ready := func() error { return t.Say(true) }
		if j.Peer == "nats" {
			js := peer.ConnectNATS(ctx, s, j.URL)
			peer.ConsumeNATS(ctx, js, func() { check(ready()) }, j.arrive)
		} else {
			j.consumeGroup(ctx, j.open(ctx, s), ready)
		}
		check(t.Say(&j.ages))
	})
}

// consumeGroup consumes as a member of a group; a record produced before tells when it owns the partition.
func (j *consumeJob) consumeGroup(ctx context.Context, rf *ringfence.Client, ready func() error) {
	must(rf.Produce(ctx, topicName, ringfence.Message{Value: []byte("?")}))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var said atomic.Bool
	check(rf.Consume(ctx, topicName, topicName, func(_ context.Context, m *ringfence.Message) error {
		switch {
		case len(m.Value) == 1 && said.CompareAndSwap(false, true):
			return ready()
		case len(m.Value) > 1 && j.arrive(m.Value):
			stop()
		}
		return nil
	}, &ringfence.ConsumeOptions{Concurrency: 1}))
}
