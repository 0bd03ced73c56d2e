package page

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/segment"
)

// decision is one step of a history: a process goes on, with one of its options, or is killed.
type decision struct {
	proc, option int
	kill         bool
}

// explorer runs all histories of a scenario. Two that come to the same state are one from there on.
type explorer struct {
	t     *testing.T
	setup func(w *world)
	fails int
	kills int
	seen  map[uint64]bool
	stack [][]decision
	ends  int
}

func (x *explorer) explore() {
	x.seen = map[uint64]bool{}
	x.stack = [][]decision{nil}
	for len(x.stack) > 0 && !x.t.Failed() {
		path := x.stack[len(x.stack)-1]
		x.stack = x.stack[:len(x.stack)-1]
		x.run(path)
	}
	x.t.Logf("%d states, %d ends", len(x.seen), x.ends)
}

// run repeats a history and goes on from there, always by the first decision; it leaves the others
// on the stack.
func (x *explorer) run(path []decision) {
	w := newWorld(x.fails)
	x.setup(w)
	defer func() {
		for _, p := range w.procs {
			p.stop()
		}
	}()
	kills := x.kills
	for i := 0; ; i++ {
		if err := w.sound(); err != nil {
			x.fail(w, path, err)
			return
		}
		if i < len(path) {
			kills -= w.take(path[i])
			continue
		}
		key := w.key(kills)
		if x.seen[key] {
			return
		}
		x.seen[key] = true
		next := w.decisions(kills > 0)
		if len(next) == 0 {
			x.ends++
			if err := w.finish(); err != nil {
				x.fail(w, path, err)
			}
			return
		}
		for _, d := range next[1:] {
			x.stack = append(x.stack, append(path[:len(path):len(path)], d))
		}
		path = append(path[:len(path):len(path)], next[0])
		kills -= w.take(next[0])
	}
}

func (x *explorer) fail(w *world, path []decision, err error) {
	var b strings.Builder
	for _, d := range path {
		fmt.Fprintf(&b, " %s", w.procs[d.proc].name)
		if d.kill {
			b.WriteString(" is killed")
		} else if d.option > 0 {
			fmt.Fprintf(&b, "(%d)", d.option)
		}
	}
	x.t.Errorf("%v\nafter%s\nwritten %v intent %v synced %v acked %v broken %d zeroed %v", err, b.String(),
		w.p.Written(), w.p.pos(wordIntent), w.p.Synced(), w.p.pos(wordAcked), w.p.Broken(), w.p.pos(wordZeroed))
}

func (w *world) take(d decision) (kills int) {
	p := w.procs[d.proc]
	if d.kill {
		w.kill(p)
		return 1
	}
	p.chosen = d.option
	w.advance(p)
	return 0
}

func (w *world) decisions(kill bool) []decision {
	var out []decision
	for i, p := range w.procs {
		if !p.alive {
			continue
		}
		if p.ahead.ready == nil || p.ahead.ready() {
			for o := range p.ahead.options {
				out = append(out, decision{proc: i, option: o})
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	for i, p := range w.procs {
		if kill && p.alive {
			out = append(out, decision{proc: i, kill: true})
		}
	}
	return out
}

// key is all that the rest of a history depends on.
func (w *world) key(kills int) uint64 {
	h := fnv.New64a()
	put := func(vs ...uint64) {
		var b [8]byte
		for _, v := range vs {
			binary.LittleEndian.PutUint64(b[:], v)
			h.Write(b[:])
		}
	}
	put(uint64(kills), uint64(w.fails), uint64(w.next), uint64(len(w.acks)))
	h.Write(w.p.b[:wordBell])
	for n := uint64(1); w.segs[n] != nil; n++ {
		s := w.segs[n]
		h.Write(s.cache[:])
		h.Write(s.disk[:])
		put(uint64(s.prevEnd))
		for _, d := range s.dirty {
			put(map[bool]uint64{true: 1}[d])
		}
	}
	for i, p := range w.procs {
		put(p.history, map[bool]uint64{true: 1}[p.alive])
		for n := uint64(1); w.segs[n] != nil; n++ {
			if f := p.files[n]; f != nil {
				put(uint64(f.hears), map[bool]uint64{true: 1}[f.owed])
			} else {
				put(0)
			}
		}
		for j := range w.locks {
			if w.locks[j] == p {
				put(uint64(10*i + j))
			}
		}
	}
	return h.Sum64()
}

// sound checks what must hold after each single store.
func (w *world) sound() error {
	hook := w.p.before
	w.p.before = nil
	defer func() { w.p.before = hook }()
	synced, written := w.p.Synced(), w.p.Written()
	for n := uint64(1); n <= synced.Number(); n++ {
		end := synced.Off()
		if n < synced.Number() {
			end = w.seg(n + 1).prevEnd
		}
		for i := range end / blk {
			if s := w.seg(n); s.disk[i] != s.cache[i] {
				return fmt.Errorf("a reader at level sync sees block %d of segment %d, which no sync covered", i, n)
			}
		}
	}
	for _, a := range w.acks {
		n, i := a.at.Number(), a.at.Off()/blk
		switch s := w.seg(n); {
		case s.cache[i] != a.what:
			return fmt.Errorf("the frame acked at %v was overwritten", a.at)
		case a.at+blk > written && n == written.Number(), n < written.Number() && a.at.Off()+blk > w.seg(n+1).prevEnd:
			return fmt.Errorf("the frame acked at %v was cut", a.at)
		case a.sync && s.disk[i] != a.what:
			return fmt.Errorf("the frame acked at level sync at %v is not on the disk", a.at)
		}
	}
	if end, left := w.p.Leftover(); w.locks[0] == nil && !left && w.p.Broken() != written.Number() {
		for i := written.Off() / blk; i < 4; i++ {
			if what := w.seg(written.Number()).cache[i]; what != 0 {
				return fmt.Errorf("a frame that is no part of the log stands in block %d behind %v, and nothing tells (%v)", i, written, end)
			}
		}
	}
	return nil
}

// finish lets somebody new come, to whom nothing bad happens any more.
func (w *world) finish() error {
	w.fails = 0
	before := len(w.acks)
	p := w.start("newcomer", func(p *proc) {
		for range 2 { // the first may meet an error that nobody was told yet
			p.append(true)
		}
	})
	for p.alive {
		if p.ahead.ready != nil && !p.ahead.ready() {
			return fmt.Errorf("a newcomer waits for ever")
		}
		p.chosen = 0
		w.advance(p)
		if err := w.sound(); err != nil {
			return fmt.Errorf("a newcomer appends: %w", err)
		}
	}
	if len(w.acks) == before {
		return fmt.Errorf("a newcomer can't append")
	}
	for _, a := range w.acks {
		if w.seg(a.at.Number()).disk[a.at.Off()/blk] != a.what {
			return fmt.Errorf("the frame acked at %v never got to the disk", a.at)
		}
	}
	return nil
}

// Every history of two processes, and some of three, at their levels of durability, with an error of a write or sync
// wherever it can come and a kill between any two accesses to the page.
func TestEveryInterleaving(t *testing.T) {
	t.Parallel()
	syncs := func(n int) func(p *proc) { return appends(true, n) }
	keeps := func(n int) func(p *proc) { return appends(false, n) }
	fails := func(p *proc) { p.w.p.Fail(1) }
	awaits := func(p *proc) { p.await(segment.At(1, blk), 1) }
	for _, c := range []scenario{
		{"both sync", 0, true, []func(p *proc){syncs(1), syncs(1)}, 1, 1},
		{"both os, then a roll", 1, true, []func(p *proc){keeps(2), keeps(1)}, 1, 1},
		{"os rolls while sync syncs", 1, true, []func(p *proc){keeps(2), syncs(1)}, 1, 0},
		{"a kill while os rolls and sync syncs", 1, true, []func(p *proc){keeps(2), syncs(1)}, 0, 1},
		{"two errors", 1, true, []func(p *proc){keeps(1), syncs(1)}, 2, 0},
		{"an error behind a roll at os", 2, true, []func(p *proc){keeps(1), syncs(2)}, 2, 0},
		{"zeros while os rolls", 1, true, []func(p *proc){keeps(2), func(p *proc) { p.zero(); p.zero() }}, 1, 1},
		{"zeros while sync rolls", 1, true, []func(p *proc){syncs(2), (*proc).zero}, 1, 1},
		// One syncs, one dies over the news of an error, one cuts.
		{"a kill over an error", 1, false, []func(p *proc){awaits, fails, keeps(1)}, 0, 1},
	} {
		c.run(t)
	}
}

// Who finds the sync lock in the hand of a process that is silent leads without it. The writer is gone: who
// leads hears nothing of an error that came before it had the file open.
func TestEveryInterleavingWithoutTheSyncLock(t *testing.T) {
	t.Parallel()
	awaits := func(p *proc) { p.await(segment.At(1, blk), 1) }
	impatient := func(p *proc) { p.awaitBy(segment.At(1, blk), 1, false) }
	for _, c := range []scenario{
		{"one leads without the lock", 1, false, []func(p *proc){awaits, impatient}, 1, 1},
		{"nobody has the lock", 1, false, []func(p *proc){impatient, impatient}, 1, 1},
		{"errors around a leader without the lock", 1, false, []func(p *proc){awaits, impatient}, 2, 0},
	} {
		c.run(t)
	}
}

// scenario is some processes and what may happen to them.
type scenario struct {
	name        string
	fill        int  // frames there before
	kept        bool // they were acknowledged at level os
	procs       []func(p *proc)
	fails, kill int
}

func (c *scenario) run(t *testing.T) {
	t.Run(c.name, func(t *testing.T) {
		t.Parallel()
		x := &explorer{t: t, fails: c.fails, kills: c.kill, setup: func(w *world) {
			w.filled(c.fill, c.kept)
			for i, run := range c.procs {
				w.start(string(rune('A'+i)), run)
			}
		}}
		x.explore()
	})
}

func appends(sync bool, n int) func(p *proc) {
	return func(p *proc) {
		for range n {
			p.append(sync)
		}
	}
}

// filled lets some frames be written, and acknowledged at level os when they are kept.
func (w *world) filled(n int, kept bool) {
	for range n {
		at := w.p.Written()
		w.next++
		w.seg(at.Number()).cache[at.Off()/blk], w.seg(at.Number()).dirty[at.Off()/blk] = w.next, true
		w.p.Intend(at + blk)
		w.p.Publish(at+blk, kept)
		if kept {
			w.acks = append(w.acks, modelAck{at: at, what: w.next})
		}
	}
}
