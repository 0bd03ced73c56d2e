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

// progressOf tells the group how far an engine got, and nothing while it got no further.
type progressOf struct {
	engine  *dispatch.Engine
	start   []protocol.Position
	version atomic.Uint64
	silent  bool                            // the handlers store their checkpoints themselves; only the end is told
	final   atomic.Bool                     // the engine drains: every finished range counts
	journal func([]protocol.Position) int64 // of a subscription: where its journal is needed from; nil: none

	deliveries func() *protocol.Deliveries // of a subscription: what is for people; nil: nothing

	mu   sync.Mutex     // over each answer: the worker's end may ask while the group does
	last group.Progress // with a journal: what was told last
}

func (p *progressOf) now() group.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := oldest(p.engine.Stats())
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

// told is what the group stores: where the journal is needed from belongs to just these positions.
func (p *progressOf) told(got dispatch.Progress, running time.Time) group.Progress {
	out := group.Progress{Positions: got.Positions, Oldest: running}
	if p.journal != nil && len(got.Positions) > 0 {
		out.From, out.Deliveries = p.journal(got.Positions), p.forPeople()
		p.last = out
	}
	return out
}

func (p *progressOf) forPeople() *protocol.Deliveries {
	if p.deliveries == nil {
		return nil
	}
	return p.deliveries()
}

// onlyJournal is for an engine that got no further: its journal may be needed from a later place all the same,
// and there may be something else to tell people.
func (p *progressOf) onlyJournal(running time.Time) group.Progress {
	out := group.Progress{Oldest: running}
	if p.journal == nil {
		return out
	}
	at, told := p.last.Positions, p.forPeople()
	if at == nil {
		at = p.start
	}
	if len(at) == 0 && told != p.last.Deliveries {
		at = p.engine.Progress().Positions // nothing was finished yet, and people are to hear why
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
