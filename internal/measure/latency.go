package measure

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/script"
)

// latency measures from the call of Produce in this process to the handler in another one, at a rate.
type latency struct{ Rate, Size int }

func (l *latency) flags(fl *pflag.FlagSet, c *Common) {
	c.turnsVar(fl)
	numberVar(fl, &l.Rate, "rate", 1000, 1, "records a second")
	numberVar(fl, &l.Size, "size", 100, 8, "`bytes` of a record's value")
}

func (l *latency) measure(ctx context.Context, r *run) {
	raw := NewRaw(r.Script, r.dir+"/raw")
	every := time.Second / time.Duration(l.Rate)
	count := max(1, int(r.For/every))
	floor := r.Add(Entry{Name: "one raw 4 KiB write + fdatasync, at that rate", Unit: "µs, median", Turn: func(t *Turn) float64 {
		Pace(ctx, every, count, func(int) { // a disk that had time to fall asleep is slower
			began := time.Now()
			raw.Write(RawBlock)
			t.Latency.Add(time.Since(began))
		})
		return t.Latency.Micros(0.5)
	}})
	levels := []ringfence.Durability{ringfence.OS, ringfence.Sync}
	var clients []*ringfence.Client
	for _, durability := range levels { // before the consumers, so that they are closed after them
		clients = append(clients, r.open(ctx, "/"+string(durability), durability))
	}
	for i, durability := range levels {
		rf, topic := clients[i], "latency-"+string(durability)
		script.Check(rf.EnsureTopic(ctx, topic, ringfence.TopicConfig{Partitions: 1}))
		consumer := r.crew(ctx, r.Script, 1, func(int) harness.Job {
			return &memberJob{site: site{Dir: r.dir + "/" + string(durability), Durability: durability}, Topic: topic, Stamped: true}
		}, nil)
		consumer.until(ctx, "the consumer to begin", func(h heard) bool { return h.Kind == kindAssigned })
		r.Add(Entry{Name: "produce to handler, durability " + string(durability), Unit: "µs, median", To: floor, Kind: "latency " + string(durability),
			Turn: func(t *Turn) float64 {
				w := NewWindow(count)
				w.Pace(ctx, every, count, func(int) {
					value := make([]byte, l.Size)
					binary.LittleEndian.PutUint64(value, uint64(time.Now().UnixNano()))
					rf.ProduceAsync(ctx, topic, ringfence.Message{Value: value}, nil, func(_ ringfence.Position, err error) { w.Leave(err) })
				})
				consumer.ask(ctx, fmt.Sprint(kindAges, " ", count), -1, func(seen heard) { t.Latency = append(t.Latency, seen.Ages...) })
				return t.Latency.Micros(0.5)
			}})
	}
	r.play()
	r.done("%d records/s of %d bytes to a consumer in another process, %s of %s taken in turn",
		l.Rate, l.Size, Many(r.Rounds, "round"), r.For)
}
