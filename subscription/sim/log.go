package sim

import (
	"github.com/ringfence/ringfence/subscription/core"
)

// encode makes the stored form of a batch; false: a payload is gone, which only a stale node meets.
func (w *shard) encode(n *node, batch []core.Entry) ([]stored, bool) {
	out := make([]stored, len(batch))
	for i := range batch {
		e := &batch[i]
		s := stored{header: core.Encode(&e.Record, e.Key), key: e.Key}
		switch e.Payload.From {
		case core.Nowhere:
		case core.AtTheEnd:
			s.final = n.final
		default:
			o, ok := w.payload(n, e.Payload, e.ID.Origin)
			if !ok {
				return nil, false
			}
			s.payload = &o
		}
		out[i] = s
	}
	return out, true
}

// payload is whose bytes lie at a place.
func (w *shard) payload(n *node, p core.Payload, want core.Origin) (copied, bool) {
	o := copied{Origin: want}
	switch p.From {
	case core.InJournal:
		if p.Place < w.first {
			if w.current(n) {
				w.fail("node %d needs the payload of %v at %d of the journal, which is trimmed to %d", n.id, want, p.Place, w.first)
			}
			return o, false
		}
		if w.journal[p.Place].payload == nil {
			w.fail("node %d: there is no payload of %v at %d of the journal", n.id, want, p.Place)
			return o, false
		}
		o = *w.journal[p.Place].payload
	case core.InDead:
		o = w.dead[p.Place]
	case core.InParent:
		o = *w.parents[p.Shard].journal[p.Place].payload
	case core.InParentDead:
		o = w.parents[p.Shard].dead[p.Place]
	}
	if o.Origin != want {
		w.fail("node %d takes the payload of %v for %v", n.id, o, want)
	}
	return o, true
}

// land appends to the journal.
func (w *shard) land(batch []stored) {
	for _, s := range batch {
		w.journal = append(w.journal, s)
		w.judge.landed(int64(len(w.journal)-1), s)
	}
}

// replay is the state after reading the journal from one place to another.
func (w *shard) replay(from, to int64) *core.State {
	st := core.New(core.Config{Set: set, From: from})
	for at := max(from, 0); at < to; at++ {
		st.Read(at, w.decode(w.journal[at]))
	}
	return st
}

func (w *world) decode(s stored) *core.Record {
	r, err := core.Decode(s.header, s.key)
	if err != nil {
		w.fail("what was encoded can't be decoded: %v", err)
		return &core.Record{}
	}
	return r
}
