package page

import "time"

// Bell is what Wait compares: it changes when there is news.
func (p *Page) Bell() uint32 { return p.half(wordBell).Load() }

// Chime changes the bell.
func (p *Page) Chime() { p.half(wordBell).Add(1) }

// Count adds d to the number of sleepers on the bell and returns it.
func (p *Page) Count(d uint32) uint32 { return p.half(wordWaiters).Add(d) }

// Sleepers is how many sleep on the bell; the dead may stay counted.
func (p *Page) Sleepers() uint32 { return p.half(wordWaiters).Load() }

// Wait sleeps until the bell changes from old or rings, at most for d. The caller has counted itself.
func (p *Page) Wait(old uint32, d time.Duration) { futexWait(&p.b[wordBell], old, d) }

// Wake wakes all sleepers on the bell, in all processes.
func (p *Page) Wake() { futexWake(&p.b[wordBell]) }

// Nap is Wait for a caller that is not counted.
func (p *Page) Nap(old uint32, d time.Duration) {
	p.Count(1)
	p.Wait(old, d)
	p.Count(^uint32(0))
}

// Shout changes the bell and wakes all sleepers.
func (p *Page) Shout() {
	p.Chime()
	p.Wake()
}
