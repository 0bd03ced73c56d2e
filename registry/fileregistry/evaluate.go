package fileregistry

import (
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

// evaluate decides on one request, changes the view and adds to the frame.
func (c *core) evaluate(r *request, ch *change) {
	for i := range r.txns {
		r.r.results = append(r.r.results, c.txn(&r.txns[i], ch))
	}
	if r.open != nil {
		r.open.slot = c.j.st.freeSlot()
		if r.open.slot < 0 {
			r.r.err = fmt.Errorf("the registry has %d sessions, as many as it can: one for each member of a group and each member of a ring; end some of these processes, or put some of the groups into another registry: %w", slotCount, fault.Unavailable)
			return
		}
		c.j.ctl.slot(r.open.slot).Store(r.open.tag << tagShift)
		c.do(&op{kind: opOpen, key: r.open.id, info: *r.open}, ch)
	}
	for _, id := range r.end {
		if c.j.st.m.Alive(id) {
			c.do(&op{kind: opEnd, key: id}, ch)
		}
	}
}

func (c *core) txn(t *driver.Txn, ch *change) driver.Result {
	failed, err := c.j.st.m.Refuse(t)
	for i := 0; err == nil && i < len(t.Puts); i++ {
		if s := t.Puts[i].Session; s != "" {
			err = c.over(s)
		}
	}
	if err != nil {
		return driver.Result{Err: err, Failed: failed}
	}
	res := driver.Result{Versions: make([]driver.Version, 0, len(t.Puts))}
	for i := range t.Puts {
		p := &t.Puts[i]
		o := op{kind: opPut, quiet: t.Quiet, key: p.Key, session: p.Session, value: append([]byte(nil), p.Value...)}
		res.Versions = append(res.Versions, c.do(&o, ch))
	}
	for _, k := range t.Deletes {
		if _, ok := c.j.st.m.Get(k); ok {
			c.do(&op{kind: opDelete, quiet: t.Quiet, key: k}, ch)
		}
	}
	return res
}

// over refuses a session whose end is certain but not in the journal yet: its owner knows that it
// is past its deadline, or another process has declared it dead.
func (c *core) over(id string) error {
	if err := c.fenced(id); err != nil { // first: an owner that lets go of it has declared it dead
		return err
	}
	info := c.j.st.sessions[id]
	if w := c.j.ctl.slot(info.slot).Load(); !tagged(w, info.tag) || w&dead != 0 {
		return fmt.Errorf("session %q has expired: %w", id, fault.Fenced)
	}
	return nil
}

// do applies an op to the view and adds it to the frame.
func (c *core) do(o *op, ch *change) driver.Version {
	c.j.rev++
	v := c.j.hdr.version(c.j.rev)
	c.j.st.apply(o, v, ch)
	c.buf = appendOp(c.buf, o)
	return v
}
