package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// Kafka can't close a topic, but its brokers can refuse every batch as too large: a seal is the setting
// max.message.bytes = 0. Two things are hard about it. A broker learns of a setting some time after the
// controller decided it, and a leader that is elected meanwhile may accept appends in ignorance: known.go waits
// until no such broker is left. And the end has to be final: it is asked of a leader of a known epoch, and
// taken when readers see all that this leader has (await). Each step can be repeated by any process, so a
// process that finds a topic with the setting finishes the seal that another one began.

// markerHeader is the header of a marker: a record without key, value and timestamp that a seal
// leaves at the end of each partition. Readers skip it; a waiting reader looks for the seal.
const markerHeader = "ringfence-seal"

func isMarker(h *header, r *rawRecord) bool {
	return r.timestamp == -1 && r.Key == nil && r.Value == nil && len(r.Headers) == 1 && r.Headers[0].Key == markerHeader && h.Attributes&attrAppendTime == 0
}

// isMarker says whether a batch is that of a seal.
func (s *span) isMarker() bool {
	if s.h.NumRecords != 1 || s.h.FirstTimestamp != -1 || s.h.Attributes&attrCompression != 0 || s.corrupt != nil {
		return false
	}
	var r rawRecord
	_, err := r.next(&s.h, s.body)
	return err == nil && isMarker(&s.h, &r)
}

// sealPatience is for how long after a marker the seal is looked for that it announces. If the process
// that began it has died meanwhile, the next long poll that ends without records finds the next one.
const sealPatience = 5 * time.Second

// suspectSeal looks whether the topic is sealed, for a while or at least once, and wakes the waiting
// readers if it is.
func (s *store) suspectSeal(patience time.Duration) {
	if s.sealed.Load() || s.suspect.Swap(true) {
		return
	}
	started := s.l.start(func() {
		defer s.suspect.Store(false)
		for n, begun := 0, time.Now(); s.l.ctx.Err() == nil; n++ {
			limit, err := s.readLimit(s.l.ctx)
			if err == nil && limit == 0 {
				_, err = s.seal(s.l.ctx)
			}
			if s.sealed.Load() || err != nil || time.Since(begun) >= patience {
				return
			}
			sleep(s.l.ctx, n)
		}
	})
	if !started {
		s.suspect.Store(false)
	}
}

// marker is a batch with nothing but a marker.
func marker() []byte {
	var b builder
	b.reset(nil)
	b.add(&driver.Record{Headers: []driver.Header{{Name: markerHeader}}}, -1, driver.Header{})
	return b.finish(nil, -1, -1, -1)
}

// Seal makes the brokers refuse every later append.
func (h *handle) Seal(ctx context.Context) ([]int64, error) {
	if err := h.present(ctx); err != nil {
		return nil, err
	}
	return h.s.seal(ctx)
}

// seal has four steps: a marker in each partition, which wakes readers that wait; the topic's settings, with which
// the seal is decided; the wait for all brokers that may lead (known.go); and the ends, from leaders that are not
// older than what those brokers know. See docs/design/seal-and-growth.md.
func (s *store) seal(ctx context.Context) ([]int64, error) {
	if s.sealed.Load() {
		s.mu.Lock()
		defer s.mu.Unlock()
		return append([]int64(nil), s.ends...), nil
	}
	limit, err := s.readLimit(ctx)
	if err != nil {
		return nil, err
	}
	if limit != 0 {
		err := s.each(func(p *partition) error {
			_, err := p.probe(ctx)
			return err
		})
		if err == nil { // the end of a transaction that is open would be refused as well
			err = s.each(func(p *partition) error {
				_, err := p.caughtUp(ctx)
				return err
			})
		}
		if err == nil {
			err = s.set(ctx, map[string]string{maxMessageBytes: "0", compressionType: sealCodec})
		}
		if err != nil {
			return nil, fmt.Errorf("seal topic %q: %w", s.config.Name, err)
		}
	}
	ends, err := s.finalEnds(ctx)
	if err != nil {
		return nil, fmt.Errorf("seal topic %q: %w", s.config.Name, err)
	}
	s.mu.Lock()
	s.ends = ends
	s.mu.Unlock()
	s.sealed.Store(true)
	s.wakeAll()
	return append([]int64(nil), ends...), nil
}

// finalEnds are the last two steps of a seal.
func (s *store) finalEnds(ctx context.Context) ([]int64, error) {
	epochs, err := s.known(ctx)
	if err != nil {
		return nil, err
	}
	ends := make([]int64, len(s.parts))
	err = s.each(func(p *partition) error {
		end, err := p.await(ctx, epochs[p.index])
		ends[p.index] = end
		return err
	})
	return ends, err
}

// each calls f for all partitions, some at a time, until it fails.
func (s *store) each(f func(*partition) error) error {
	var g errgroup.Group
	g.SetLimit(16)
	var failed atomic.Bool
	for _, p := range s.parts {
		g.Go(func() error {
			if failed.Load() {
				return nil
			}
			if err := f(p); err != nil {
				failed.Store(true)
				return fmt.Errorf("partition %d: %w", p.index, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// await probes until the leader refuses, and returns the end of the partition, which is final
// then: the end of the leader's log, once all of it is replicated. Both are asked of one leader, of
// that epoch or a later one.
func (p *partition) await(ctx context.Context, epoch int32) (int64, error) {
	for n := 0; ; n++ {
		refused, err := p.probe(ctx)
		if err != nil {
			return 0, err
		}
		if refused {
			if own, seen, err := p.ownEnd(ctx, epoch); err != nil || seen >= own {
				return seen, err
			}
		}
		sleep(ctx, n)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}

// ownEnd is the end of the leader's log, replicated or not, with all that it is storing just now: to
// tell the producers of a partition it takes the lock under which it stores. seen is the end that
// readers see.
func (p *partition) ownEnd(ctx context.Context, epoch int32) (own, seen int64, err error) {
	err = p.s.onLeader(ctx, p.index, func(ctx context.Context, broker int32) (err error) {
		_, now := p.s.meta.Load().leader(p.index)
		now = max(now, epoch)
		if _, err = p.producerStateAt(ctx, broker, 0); err != nil {
			return err
		}
		if own, err = p.listOffsetAt(ctx, broker, now, debugger, latest); err != nil {
			return err
		}
		seen, err = p.listOffsetAt(ctx, broker, now, consumer, latest)
		return err
	})
	return own, seen, err
}

// probe appends a marker, unless the broker refuses it.
func (p *partition) probe(ctx context.Context) (refused bool, err error) {
	b := &batch{data: marker()}
	err = p.s.onLeader(ctx, p.index, func(ctx context.Context, broker int32) error {
		errs, _ := p.s.l.produce(ctx, broker, []outgoing{{p, b}})
		if refused = errors.Is(errs[0], kerr.MessageTooLarge); refused {
			return nil
		}
		return errs[0]
	})
	return refused, err
}

// sealCodec is a compression that no batch of ours has. A broker compares the size of a batch with
// the limit before it takes the lock of the partition, so one that waits there could get in after
// all. What it has to compress anew it compares again, under the lock.
const sealCodec = "gzip"

// set changes settings of the topic, all in one act of the controller; those to clear go back to the default.
func (s *store) set(ctx context.Context, settings map[string]string, toClear ...string) error {
	var configs []kmsg.IncrementalAlterConfigsRequestResourceConfig
	for name, value := range settings {
		configs = append(configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Op: kmsg.IncrementalAlterConfigOpSet, Value: &value})
	}
	for _, name := range toClear {
		configs = append(configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Op: kmsg.IncrementalAlterConfigOpDelete})
	}
	return persist(ctx, func(ctx context.Context) error {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.Configs = kmsg.ConfigResourceTypeTopic, s.kafkaName, configs
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Resources = append(req.Resources, r)
		resp, err := anyBroker(ctx, s.l, req)
		if err != nil {
			return err
		}
		for _, r := range resp.Resources {
			if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
				if errors.Is(err, kerr.UnknownTopicOrPartition) {
					if again := s.refresh(ctx); again != nil {
						return again
					}
				}
				return fmt.Errorf("%w: %s", err, text(r.ErrorMessage))
			}
		}
		return nil
	})
}
