package dispatch

import "time"

const (
	maxBatch  = 128                   // records claimed at once
	batchTime = 60 * time.Microsecond // that a claim should last
	owedBatch = 64                    // records claimed at once when they are answered later
	fastBatch = 16                    // from here on, handlers are known not to block
	patience  = time.Millisecond      // a claim that lasts longer is taken back
)

// pace adapts to the speed of handlers: how many records a worker claims at once, and how many
// workers are worth waking. Unknown handlers count as slow.
type pace struct {
	batch int // records to claim
	width int // handlers to run at the same time, besides those that have blocked
	full  int // width for slow handlers: what was configured
	cores int
	each  float64 // moving average of the time of one record, in ns
	late  bool    // the last one was answered later
}

func newPace(concurrency, cores int) pace {
	return pace{batch: 1, width: concurrency, full: concurrency, cores: cores}
}

// took records how long records took.
func (p *pace) took(records int, d time.Duration) {
	if records == 0 {
		return
	}
	each := float64(d) / float64(records)
	if p.each == 0 {
		p.each = each
	}
	p.each += (each - p.each) / 4
	p.late = false
	size := maxBatch
	if p.each*maxBatch > float64(batchTime) {
		size = max(1, int(float64(batchTime)/p.each))
	}
	p.batch = min(size, 2*p.batch)
	p.width = p.full
	if p.batch >= fastBatch { // more goroutines than cores would only get in each other's way
		p.width = min(p.full, p.cores)
	}
}

// owed records that handlers answer later: calling them needs no more goroutines than cores.
func (p *pace) owed() { p.batch, p.width, p.each, p.late = owedBatch, min(p.full, p.cores), 0, true }

// reset forgets the speed of handlers: one has blocked, or there was nothing to do.
func (p *pace) reset() { p.batch, p.width, p.each, p.late = 1, p.full, 0, false }

// hurried reports whether slowness must be watched for.
func (p *pace) hurried(claimed int) bool { return claimed > 1 || p.width < p.full }
