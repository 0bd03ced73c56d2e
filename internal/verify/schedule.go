package verify

import (
	"fmt"
	"time"

	"github.com/ringfence/ringfence/internal/harness"
)

// Fault is one fault of the schedule, and what came of it.
type Fault struct {
	AtMillis   int64  `json:"at_ms"` // after the beginning of the load
	Kind       string `json:"kind"`
	Process    string `json:"process,omitempty"` // that is hurt
	HoldMillis int64  `json:"hold_ms"`           // until it goes on, or is started again
	Partitions int    `json:"partitions,omitempty"`
	Shards     int    `json:"shards,omitempty"`

	Done  bool   `json:"done"`
	Note  string `json:"note,omitempty"` // why not, or what went otherwise than planned
	Units int    `json:"units"`          // that the process owned
	// TakeoverMillis is how long it took until the last of them had its next owner; 0: none was seen.
	TakeoverMillis float64 `json:"takeover_ms"`

	begun bool
	hurts *harness.Process // from its beginning to its end
}

// The pace of the schedule.
const (
	quiet      = 500 * time.Millisecond // before the first fault
	calm       = 700 * time.Millisecond // at most, between two
	shortHold  = 500 * time.Millisecond // at most, until a process is started again
	overTTL    = 200 * time.Millisecond // by which a stop is longer than a session, at least
	stopSpread = time.Second            // and at most so much more
	maxGrowth  = 3                      // storage topics that are added
	maxUnits   = 1024                   // partitions of the largest
	maxTurns   = 40                     // of the shard set: a subscription keeps what they left for an hour
)

// What a fault hurts.
const (
	hurtsConsumer = iota
	hurtsProducer
	hurtsTopic
)

// schedule is what happens to which process and when. It follows from the configuration alone.
func (c *Config) schedule() (faults []*Fault) {
	var troubles []harness.Trouble
	for _, kind := range c.Kinds() { // not in the order in which they were asked for
		hold := [2]time.Duration{0, shortHold}
		switch {
		case !c.has(kind):
			continue
		case kind == Grow, kind == Retire, kind == Reshard:
			troubles = append(troubles, harness.Trouble{Name: kind, Hurts: hurtsTopic})
			continue
		case kind == Stop:
			hold = [2]time.Duration{c.TTL + overTTL, c.TTL + overTTL + stopSpread}
		}
		troubles = append(troubles, harness.Trouble{Name: kind, Hurts: hurtsConsumer, Hold: hold}, harness.Trouble{Name: kind, Hurts: hurtsProducer, Hold: hold})
	}
	at, grown, turned := quiet, c.Partitions, time.Duration(0)
	for step := range harness.Plan(c.Seed, troubles, calm) {
		longest := time.Duration(0)
		for _, in := range step.Injections {
			longest = max(longest, in.Hold)
			f := &Fault{AtMillis: at.Milliseconds(), Kind: in.Name, HoldMillis: in.Hold.Milliseconds()}
			switch in.Hurts {
			case hurtsConsumer:
				f.Process = consumerName(in.Pick % c.Consumers)
			case hurtsProducer:
				f.Process = producerName(in.Pick % c.Producers)
			case hurtsTopic:
				switch f.Kind {
				case Grow:
					if grown*2 > min(c.Partitions<<maxGrowth, maxUnits) {
						continue
					}
					grown *= 2
					f.Partitions = grown
				case Reshard:
					if at < turned+c.For/maxTurns {
						continue
					}
					turned, f.Shards = at, 1+in.Pick%c.Partitions // no storage topic has fewer partitions
				}
			}
			if at+in.Hold < c.For {
				faults = append(faults, f)
			}
		}
		if at += longest + step.Calm; at >= c.For {
			break
		}
	}
	return faults
}

func consumerName(i int) string { return fmt.Sprintf("consumer-%d", i+1) }
func producerName(i int) string { return fmt.Sprintf("producer-%d", i+1) }
