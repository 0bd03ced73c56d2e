package cli

import (
	"fmt"
	"time"

	"github.com/ringfence/ringfence/internal/visible"
)

// progress shows on stderr how far long work got: redrawn in place on a terminal, every ten seconds elsewhere.
type progress struct {
	w        *visible.Writer
	terminal bool
	started  time.Time
	drawn    bool
}

// newProgress starts the clock; the first line comes with the first tick.
func (a *app) newProgress() (*progress, *time.Ticker) {
	p := &progress{w: a.stderr, terminal: a.draws(a.stderr), started: time.Now()}
	every := 10 * time.Second
	if p.terminal {
		every = 200 * time.Millisecond
	}
	return p, time.NewTicker(every)
}

// show draws how many there are of what.
func (p *progress) show(n int64, what string) {
	p.draw(fmt.Sprintf("%s %s, %s/s", thousands(n), what, p.rate(n)))
}

// draw shows a line.
func (p *progress) draw(text string) {
	if p.terminal {
		fmt.Fprint(p.w, p.w.Control("\r\x1b[K")+p.w.Line(text))
		p.drawn = true
		return
	}
	fmt.Fprintln(p.w, p.w.Line(text))
}

func (p *progress) rate(n int64) string {
	seconds := max(time.Since(p.started).Seconds(), 1e-3)
	return thousands(int64(float64(n) / seconds))
}

// clear removes the line, so that what follows stands alone.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.w, p.w.Control("\r\x1b[K"))
		p.drawn = false
	}
}
