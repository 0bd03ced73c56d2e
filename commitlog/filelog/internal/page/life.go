package page

import "github.com/ringfence/ringfence/internal/segment"

// hintOf guards a position on disk. The page reaches the disk whenever the kernel likes, so a
// position that fits its check may be an old one, but it was true.
func hintOf(pos segment.Pos) uint64 { return (uint64(pos) ^ magic) * 0x9e3779b97f4a7c15 }

// Hint is the synced position of an earlier life, as far as the page can tell; else 0.
func (p *Page) Hint() segment.Pos {
	if pos := p.Synced(); p.load(wordMagic) == magic && p.load(wordCheck) == hintOf(pos) {
		return pos
	}
	return 0
}

// Adopt makes the page say what recovery found: low is the oldest segment, all below end is part
// of the log and durable. The caller has the write lock, and no other process has the topic open.
func (p *Page) Adopt(low uint64, end segment.Pos, firsts []int64) {
	for i, f := range firsts {
		p.store(wordFirst+8*i, uint64(f))
	}
	for _, w := range []int{wordSyncing, wordBroken, wordPrepared, wordDeleted} {
		p.store(w, 0)
	}
	p.half(wordWaiters).Store(0)
	p.store(wordLow, low)
	for _, w := range []int{wordWritten, wordIntent, wordSynced, wordAcked, wordZeroed} {
		p.store(w, uint64(end))
	}
	p.store(wordCheck, hintOf(end))
	p.store(wordMagic, magic)
}

// View is a page that was read from its file, for looking at; nil when it is too short for one.
func View(b []byte) *Page {
	if len(b) < wordFirst {
		return nil
	}
	return &Page{b: b}
}
