package consumer

import (
	"sync/atomic"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/registry"
)

// progressOf tells the group how far an engine got, and nothing while it got no further.
type progressOf struct {
	engine  *dispatch.Engine
	start   []registry.Position
	version atomic.Uint64
	silent  bool        // the handlers store their checkpoints themselves; only the end is told
	final   atomic.Bool // the engine drains: every finished range counts
}

func (p *progressOf) now() group.Progress {
	running := oldest(p.engine.Stats())
	if p.silent && !p.engine.Ended() {
		return group.Progress{Oldest: running}
	}
	if p.final.Load() {
		return group.Progress{Positions: p.engine.Final().Positions, Oldest: running}
	}
	if v := p.engine.Version(); v == p.version.Load() {
		return group.Progress{Oldest: running}
	}
	got := p.engine.Progress()
	p.version.Store(got.Version)
	return group.Progress{Positions: got.Positions, Oldest: running}
}
