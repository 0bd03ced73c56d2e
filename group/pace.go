package group

import (
	"sync/atomic"
	"time"
)

const (
	calmRounds   = 10              // so many in a row without progress begin a rest, and a long one
	restInterval = time.Second     // how often progress is collected in a rest, at most
	longInterval = 5 * time.Second // and in a long one
)

// pace decides when progress is collected: every commit interval while there is some, and seldom
// during a rest, as each time wakes the processor. All but advanced is the loop's.
type pace struct {
	interval time.Duration
	ticker   *time.Ticker
	calm     int           // rounds without progress
	resting  atomic.Bool   // workers say that they move
	wake     chan struct{} // one did
}

func newPace(interval time.Duration) *pace {
	p := &pace{interval: interval, ticker: time.NewTicker(time.Hour), wake: make(chan struct{}, 1)}
	p.stop()
	return p
}

// start collects every interval from now on.
func (p *pace) start() {
	p.calm = 0
	p.resting.Store(false)
	p.ticker.Reset(p.interval)
}

func (p *pace) stop() {
	p.resting.Store(false)
	p.ticker.Stop()
}

// rest takes the outcome of a round; true: a rest begins with it. Then another round has to follow,
// since progress before the rest began was not reported.
func (p *pace) rest(calm bool) (begins bool) {
	resting := p.resting.Load()
	switch {
	case !calm && resting:
		p.start()
	case !calm:
		p.calm = 0
	case !resting && p.interval < restInterval:
		if p.calm++; p.calm == calmRounds {
			p.resting.Store(true)
			p.ticker.Reset(restInterval)
			return true
		}
	case resting:
		if p.calm++; p.calm == 2*calmRounds {
			p.ticker.Reset(longInterval)
		}
	}
	return false
}

// advanced ends a rest. Any goroutine may call it.
func (p *pace) advanced() {
	if p.resting.Load() {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}
