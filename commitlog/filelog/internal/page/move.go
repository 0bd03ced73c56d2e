package page

import "github.com/ringfence/ringfence/internal/segment"

// The mark in the lowest bits of synced. Positions are multiples of 8. A failure changes it, so
// that a Sync that looked before the failure can't land after it; a cut of a segment at synced
// relies on that. It follows from the broken segment, so that setting it twice changes nothing.
const markBits = 7

func unmarked(word uint64) segment.Pos { return segment.Pos(word &^ markBits) }

func marked(word, broken uint64) uint64 { return word&^markBits | (broken%markBits + 1) }

// verdict is what a Sync comes to.
type verdict int

const (
	done    verdict = iota // all below was published before
	refused                // the segment had an error
	move
)

// judgeSync decides whether synced may move to a position: not into a segment that had an error,
// nor one before it, whatever an fdatasync said; past them, once the log goes on behind.
func judgeSync(word, broken uint64, to segment.Pos) verdict {
	switch {
	case unmarked(word) >= to:
		return done
	case to.Number() <= broken:
		return refused
	}
	return move
}

// promised is where segment n may be cut: behind all in it that was promised.
func promised(n uint64, synced, acked segment.Pos) segment.Pos {
	cut := segment.At(n, 0)
	for _, p := range []segment.Pos{synced, acked} {
		if p.Number() == n {
			cut = max(cut, p)
		}
	}
	return cut
}

// zeroStart is where zeros ahead of the appends go on in segment n: never below what is written,
// and never by a mark that belongs to another segment. false when n is not the one to fill.
func zeroStart(n uint64, written, zeroed segment.Pos, broken uint64) (segment.Pos, bool) {
	if written.Number() != n || broken == n {
		return 0, false
	}
	if zeroed.Number() != n {
		return written, true
	}
	return max(written, zeroed), true
}

// leftover is up to where a dead writer may have left bytes behind written that are no part of the log.
func leftover(written, intent segment.Pos) (segment.Pos, bool) {
	return intent, intent > written && intent.Number() == written.Number()
}

// Intend says that bytes are about to be written behind the log, up to end. The caller has the
// write lock and has dealt with Leftover.
func (p *Page) Intend(end segment.Pos) { p.store(wordIntent, uint64(end)) }

// Publish makes what was written part of the log. kept: it is acknowledged without a sync.
// The caller has the write lock.
func (p *Page) Publish(at segment.Pos, kept bool) {
	p.store(wordWritten, uint64(at))
	if kept {
		p.store(wordAcked, uint64(at))
	}
}

// Reach is behind all bytes that may stand in segment n by now. A process that has opened the segment hears
// of every error of later writes.
func (p *Page) Reach(n uint64) segment.Pos {
	intent := p.pos(wordIntent) // first: what is written is intended before
	return reach(n, max(intent, p.Written()))
}

func reach(n uint64, last segment.Pos) segment.Pos {
	return min(max(last, segment.At(n, 0)), segment.At(n+1, 0))
}

// Leftover tells up to where a writer that died, or that failed, may have left bytes behind the
// log. They must be wiped before anything is written there. The caller has the write lock.
func (p *Page) Leftover() (end segment.Pos, left bool) {
	return leftover(p.Written(), p.pos(wordIntent))
}

// Wiped says that nothing is left behind the log. The caller has the write lock.
func (p *Page) Wiped() { p.store(wordIntent, p.load(wordWritten)) }

// Begin starts a segment whose header is in place: at is behind that, and the file is full of zeros
// from there up to zeroed. The caller has the write lock.
func (p *Page) Begin(at, zeroed segment.Pos) {
	p.store(wordWritten, uint64(at))
	p.store(wordZeroed, uint64(max(at, zeroed)))
}

// Sync publishes that all below to is on stable storage; false when its segment had an error.
func (p *Page) Sync(to segment.Pos) bool {
	for {
		old := p.load(wordSynced)
		switch judgeSync(old, p.load(wordBroken), to) {
		case done:
			return true
		case refused:
			return false
		}
		if p.swap(wordSynced, old, uint64(to)) {
			p.checkSynced()
			return true
		}
	}
}

// checkSynced makes the check fit the synced word, whichever process moves that at the same time.
func (p *Page) checkSynced() {
	for at := p.Synced(); ; {
		p.store(wordCheck, hintOf(at))
		now := p.Synced()
		if now == at {
			return
		}
		at = now
	}
}

// Fail ends all waiting for segment n and writing to it, after a failed write or sync. It moves no position.
func (p *Page) Fail(n uint64) {
	p.raise(wordBroken, n)
	p.freeze()
}

func (p *Page) freeze() {
	for {
		old := p.load(wordSynced)
		next := marked(old, p.load(wordBroken))
		if old == next || p.swap(wordSynced, old, next) {
			return
		}
	}
}

// Cut is where the broken segment n ends; its promised part can't grow any more. At(n, 0): none
// of it was promised. The caller has the write lock.
func (p *Page) Cut(n uint64) segment.Pos {
	p.freeze()
	return promised(n, p.Synced(), p.pos(wordAcked))
}

// ZeroFrom is where segment n, with room up to limit, is to be filled with zeros; false when it is
// full of them, or not the one that is written. The caller has the write lock.
func (p *Page) ZeroFrom(n uint64, limit int64) (int64, bool) {
	at, ok := zeroStart(n, p.Written(), p.pos(wordZeroed), p.Broken())
	off := (at.Off() + segment.Block - 1) &^ (segment.Block - 1)
	return off, ok && off < limit
}

// Zeroed notes that zeros reach up to off in segment n. The caller has the write lock.
func (p *Page) Zeroed(n uint64, off int64) { p.store(wordZeroed, uint64(segment.At(n, off))) }

// WantsZeros tells whether less than slack bytes of zeros are left behind at, in a segment with
// room up to limit.
func (p *Page) WantsZeros(at segment.Pos, limit, slack int64) bool {
	zeroed := at
	if z := p.pos(wordZeroed); z.Number() == at.Number() {
		zeroed = z
	}
	return at+segment.Pos(slack) > zeroed && segment.At(at.Number(), limit) > zeroed
}
