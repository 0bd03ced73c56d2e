package dispatch

import (
	"bytes"

	"github.com/ringfence/ringfence/commitlog"
)

// release notes that m holds one record less.
func (e *Engine) release(m *memory) {
	if m.live--; m.live == 0 {
		e.retained -= m.bytes
	}
}

// compactIfFull makes room when memory is at its bound. A record that waits long, behind a failing
// one of its key, say, keeps the whole read that brought it. It is copied out when few others of
// that read are left. The copies cost at most a constant for each finished record.
func (e *Engine) compactIfFull() {
	if e.retained < e.cfg.MaxBytes || e.done-e.compacted < uint64(max(blockRecords, e.sched.unfinished/4)) {
		return
	}
	e.compacted = e.done
	for _, in := range e.inputs {
		for n := in.tracker.head; n != nil; n = n.next {
			if n.state != claimed && n.state != out && n.rec.data.live*4 <= n.rec.data.count && n.rec.data.count > 1 {
				e.moveOut(n)
			}
		}
	}
}

// moveOut gives a record memory of its own. The old bytes stay intact for a handler that has kept them.
func (e *Engine) moveOut(n *node) {
	r := &n.rec
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	own := make([]commitlog.Header, len(r.Headers))
	for i, h := range r.Headers {
		own[i] = commitlog.Header{Name: h.Name, Value: bytes.Clone(h.Value)}
	}
	r.Headers = own
	e.release(r.data)
	r.data = &memory{live: 1, count: 1, bytes: int64(commitlog.RecordBytes(&r.Record)), from: r.data.from, lost: r.data.lost, atWork: r.data.atWork}
	e.retained += r.data.bytes
}
