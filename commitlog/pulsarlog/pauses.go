package pulsarlog

import (
	"math/rand/v2"
	"time"

	"github.com/apache/pulsar-client-go/pulsar/backoff"
)

const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// pauses are those between two tries to connect again. Those of the client grow to a minute: a
// broker that was away for ten seconds would be missed for ten more.
type pauses struct{ last time.Duration }

var _ backoff.Policy = (*pauses)(nil)

func newPauses() backoff.Policy { return &pauses{} }

func (p *pauses) Next() time.Duration {
	p.last = min(max(2*p.last, firstPause), lastPause)
	return p.last + rand.N(p.last/4) //nolint:gosec // spreads the load, no secret
}

// IsMaxBackoffReached is asked for the client's metrics only.
func (p *pauses) IsMaxBackoffReached() bool { return p.last >= lastPause }

func (p *pauses) Reset() { p.last = 0 }
