package consumer

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
)

// progressOf reports an engine's progress to the group, and nothing while there is none.
type progressOf struct {
	engine  *dispatch.Engine
	start   []protocol.Position
	version atomic.Uint64
	silent  bool                            // the handlers store their checkpoints; only the end is reported
	final   atomic.Bool                     // the engine drains: every finished range counts
	journal func([]protocol.Position) int64 // of a subscription: from where its journal is needed; nil: none

	deliveries func() *protocol.Deliveries // what is told to people

	mu   sync.Mutex     // over each answer: the worker's end may ask while the group does
	last group.Progress // what was told last
}

func (p *progressOf) now() group.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := p.engine.Longest()
	if p.silent && !p.engine.Ended() {
		return group.Progress{Oldest: running}
	}
	if p.final.Load() {
		return p.told(p.engine.Final(), running)
	}
	if v := p.engine.Version(); v == p.version.Load() {
		return p.onlyTold(running)
	}
	got := p.engine.Progress()
	p.version.Store(got.Version)
	return p.told(got, running)
}

// told is what the group stores: the place of the journal belongs to just these positions.
func (p *progressOf) told(got dispatch.Progress, running time.Time) group.Progress {
	out := group.Progress{Positions: got.Positions, Oldest: running}
	if len(got.Positions) > 0 {
		out.From, out.Deliveries = p.from(got.Positions), p.deliveries()
		p.last = out
	}
	return out
}

// from is where the journal is needed from by a start at these positions; 0: there is none.
func (p *progressOf) from(at []protocol.Position) int64 {
	if p.journal == nil {
		return 0
	}
	return p.journal(at)
}

// onlyTold is for an engine without progress: the place from which its journal is needed may have moved all the same,
// or what is told to people changed.
func (p *progressOf) onlyTold(running time.Time) group.Progress {
	out := group.Progress{Oldest: running}
	at, told := p.last.Positions, p.deliveries()
	if at == nil {
		at = p.start
	}
	if len(at) == 0 && told != p.last.Deliveries {
		at = p.engine.Progress().Positions // nothing is finished yet, and the stats say why
	}
	if len(at) == 0 {
		return out
	}
	if from := p.from(at); from != p.last.From || told != p.last.Deliveries {
		out.Positions, out.From, out.Deliveries = slices.Clone(at), from, told
		p.last = out
	}
	return out
}

// failing tells which record of a group fails for the longest, at most once in tellEvery. Its caller holds a lock.
type failing struct {
	engine *dispatch.Engine
	looked time.Time
	last   *protocol.Deliveries
}

const tellEvery = time.Second

func (f *failing) deliveries() *protocol.Deliveries {
	now := time.Now()
	if now.Sub(f.looked) < tellEvery {
		return f.last
	}
	f.looked = now
	told := &protocol.Deliveries{At: now.UnixMilli(), Failing: f.engine.Failing()}
	switch {
	case told.Failing == nil:
		f.last = nil
	case f.last == nil || !told.Same(f.last):
		f.last = told
	}
	return f.last
}
