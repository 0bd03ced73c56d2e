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

	deliveries func() *protocol.Deliveries // of a subscription: the stats for people

	mu   sync.Mutex     // over each answer: the worker's end may ask while the group does
	last group.Progress // with a journal: what was told last
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
		return p.onlyJournal(running)
	}
	got := p.engine.Progress()
	p.version.Store(got.Version)
	return p.told(got, running)
}

// told is what the group stores: the place of the journal belongs to just these positions.
func (p *progressOf) told(got dispatch.Progress, running time.Time) group.Progress {
	out := group.Progress{Positions: got.Positions, Oldest: running}
	if p.journal != nil && len(got.Positions) > 0 {
		out.From, out.Deliveries = p.journal(got.Positions), p.deliveries()
		p.last = out
	}
	return out
}

// onlyJournal is for an engine without progress: the place from which its journal is needed may have moved all
// the same, or the stats changed.
func (p *progressOf) onlyJournal(running time.Time) group.Progress {
	out := group.Progress{Oldest: running}
	if p.journal == nil {
		return out
	}
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
	if from := p.journal(at); from != p.last.From || told != p.last.Deliveries {
		out.Positions, out.From, out.Deliveries = slices.Clone(at), from, told
		p.last = out
	}
	return out
}
