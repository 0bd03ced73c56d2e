package shard

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/subscription/core"
)

// The journal's beginning is dropped in two steps. The core says from where an heir would have to read (From),
// and the next commit stores that in the checkpoint; then only what lies before the place that the registry
// has, read back from there, is trimmed. What this process believes to have stored is not enough: after a
// refused commit, or in a registry that went back, an heir would look for a place that is gone.

// trimEvery is the shortest time between two trims.
const trimEvery = time.Second

// trim drops from the journal what no later owner will read: what lies before the place in the
// checkpoint, as the registry has it. Later places that this process knows are not stored yet.
func (s *Shard) trim(ctx context.Context) {
	pause := time.NewTicker(trimEvery)
	defer pause.Stop()
	for warned := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-s.useless:
		}
		err := s.trimOnce(ctx)
		if err != nil && !warned && ctx.Err() == nil {
			s.log.Warn("the journal could not be trimmed; it is tried again", "error", err)
		}
		warned = err != nil
	}
}

func (s *Shard) trimOnce(ctx context.Context) error {
	from, err := s.cfg.Stored(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	was := s.trimmed
	s.mu.Unlock()
	if from <= was {
		return nil // it is not stored yet
	}
	s.do(func(st *core.State) { st.Stored(from) })
	s.mu.Lock()
	to := s.trimmed
	s.mu.Unlock()
	if to == was {
		return nil
	}
	if err := s.cfg.Journal.Trim(ctx, s.cfg.Shard, to); err != nil {
		s.mu.Lock()
		s.trimmed = was
		s.mu.Unlock()
		return err
	}
	return nil
}
