package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

// key is the ordering key of a record.
func (s *Shard) key(key []byte) []byte {
	if by := s.cfg.OrderBy; by != nil {
		return by(key)
	}
	return key
}

func originOf(r *dispatch.Record) core.Origin {
	return core.Origin{Storage: int32(r.Storage), Partition: int32(r.Partition), Offset: r.Offset}
}

// admit asks the state of a record's key what becomes of it. A delayed one never goes directly.
func (s *Shard) admit(r *dispatch.Record, delayed bool) (v core.Verdict) {
	key, origin := s.key(r.Key), originOf(r)
	s.do(func(st *core.State) {
		if v = st.Admit(key, origin); v == core.Direct && delayed {
			st.Left(origin)
			v = core.Divert
		}
	})
	return v
}

// leave notes the end of a record's direct delivery.
func (s *Shard) leave(o core.Origin) { s.do(func(st *core.State) { st.Left(o) }) }

// parking is a main record with a handler that waits for it.
type parking struct {
	rec  commitlog.Record
	done chan struct{}
}

// park writes a record down, as of now, and waits until that is final. The same look at the clock decides when it
// is due.
func (s *Shard) park(ctx context.Context, r *dispatch.Record, now time.Time, h core.Held) error {
	if err := Storable(&r.Record); err != nil {
		s.log.Warn("a record can't be parked", "storage", r.Storage, "partition", r.Partition, "offset", r.Offset, "error", err)
		return err
	}
	h.Origin, h.Key, h.Timestamp, h.Now = originOf(r), s.key(r.Key), r.Timestamp, now.UnixMilli()
	var p *parking
	s.do(func(st *core.State) {
		if p = s.pending[h.Origin]; p == nil {
			p = &parking{rec: r.Record, done: make(chan struct{})}
			s.pending[h.Origin] = p
			st.Park(h)
		}
	})
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.over:
		return fmt.Errorf("the shard has ended: %w", fault.Closed)
	}
}
