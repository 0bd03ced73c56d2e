package benchkit

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/measure"
)

// latency measures the time from the call of Produce in this process to the handler in another
// one, at a rate.
type latency struct{ Rate, Size int }

func (l *latency) settings(s *settings) {
	s.turns()
	s.number(&l.Rate, "rate", 1000, 1, "records a second")
	s.number(&l.Size, "size", 100, 8, "`bytes` of a record's value")
	s.program("the latency")
}

func (l *latency) measure(ctx context.Context, r *run) error {
	raw, err := measure.NewRaw(r.dir + "/raw")
	if err != nil {
		return err
	}
	r.later(raw.Close)
	every := time.Second / time.Duration(l.Rate)
	count := max(1, int(r.For/every))
	floor := r.Add(measure.Entry{Name: "one raw 4 KiB write + fdatasync, at that rate", Unit: "µs, median", Turn: func(h *measure.Histogram) (float64, error) {
		err := measure.Pace(ctx, every, count, func(int) error { // a disk that had time to fall asleep is slower
			began := time.Now()
			err := raw.Write(measure.RawBlock, true)
			h.Add(time.Since(began))
			return err
		})
		return h.Micros(0.5), err
	}})
	levels := []ringfence.Durability{ringfence.OS, ringfence.Sync}
	clients := make([]*ringfence.Client, len(levels))
	for i, durability := range levels { // before the consumers, so that they are closed after them
		if clients[i], err = r.open(ctx, "/"+string(durability), durability); err != nil {
			return err
		}
	}
	for i, durability := range levels {
		rf, topic := clients[i], "latency-"+string(durability)
		if err := rf.EnsureTopic(ctx, topic, ringfence.TopicConfig{Partitions: 1}); err != nil {
			return err
		}
		consumer := r.crew(1, func(int) harness.Job {
			return &memberJob{Dir: r.dir + "/" + string(durability), Durability: durability, Topic: topic, Stamped: true}
		}, nil)
		if err := consumer.startAll(ctx); err != nil {
			return err
		}
		if err := consumer.until(ctx, "the consumer to begin", func(h heard) bool { return h.Kind == kindAssigned }); err != nil {
			return err
		}
		r.Add(measure.Entry{Name: "produce to handler, durability " + string(durability), Unit: "µs, median", To: floor, Kind: "latency " + string(durability),
			Turn: func(h *measure.Histogram) (float64, error) {
				w := measure.NewWindow(count)
				err := measure.Pace(ctx, every, count, func(int) error {
					value := make([]byte, l.Size)
					binary.LittleEndian.PutUint64(value, uint64(time.Now().UnixNano()))
					if w.Enter() {
						rf.ProduceAsync(ctx, topic, ringfence.Message{Value: value}, nil, func(_ ringfence.Position, err error) { w.Leave(err) })
					}
					return nil
				})
				if err != nil {
					return 0, err
				}
				if _, err := w.Wait(); err != nil {
					return 0, err
				}
				err = consumer.ask(ctx, fmt.Sprint(kindAges, " ", count), -1, func(seen heard) { h.Merge(seen.Ages) })
				return h.Micros(0.5), err
			}})
	}
	if err := r.play(); err != nil {
		return err
	}
	return r.done("%d records/s of %d bytes to a consumer in another process, %s of %s taken in turn",
		l.Rate, l.Size, measure.Many(r.Rounds, "round"), r.For)
}
