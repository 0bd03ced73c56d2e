package subscription

import (
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
)

// Limits bound what all members of a subscription deliver together; 0: no bound.
type Limits struct {
	Rate        int `json:"rate,omitempty"`        // attempts in a second
	Concurrency int `json:"concurrency,omitempty"` // attempts at the same time, at least one for each shard
}

// The largest limits.
const (
	MaxRate        = 10_000_000
	MaxConcurrency = 1 << 20
)

// LimitsOf returns the limits of a definition; nil: none.
func LimitsOf(rate, concurrency int) *Limits {
	if rate == 0 && concurrency == 0 {
		return nil
	}
	return &Limits{rate, concurrency}
}

func (l *Limits) validate(name string) error {
	if l == nil {
		return nil
	}
	if l.Rate < 0 || l.Rate > MaxRate {
		return fmt.Errorf("subscription %q: a rate of %d; expected 1 to %d attempts a second, or 0 for no bound: %w", name, l.Rate, MaxRate, fault.Invalid)
	}
	if l.Concurrency < 0 || l.Concurrency > MaxConcurrency {
		return fmt.Errorf("subscription %q: a concurrency of %d; expected 1 to %d, or 0 for no bound: %w", name, l.Concurrency, MaxConcurrency, fault.Invalid)
	}
	return nil
}

// CheckShards checks that each of so many shards can deliver.
func (l *Limits) CheckShards(name string, shards int) error {
	if l == nil || l.Concurrency == 0 || l.Concurrency >= shards {
		return nil
	}
	return fmt.Errorf("subscription %q: a concurrency of %d for %d shards, each of which delivers one record at a time at least; expected %d or more, or first \"ringfence subscription reshard %s --shards %d\": %w",
		name, l.Concurrency, shards, shards, name, l.Concurrency, fault.Invalid)
}

// Rate is how many attempts a second all members may begin together; 0: no bound.
func (d *Document) Rate() int {
	if d.Limits == nil {
		return 0
	}
	return d.Limits.Rate
}

// Concurrency is how many attempts one shard of the active set may have under way; 0: no bound. The
// shards divide the whole, so members need not agree on anything.
func (d *Document) Concurrency(shard int) int {
	if d.Limits == nil || d.Limits.Concurrency == 0 {
		return 0
	}
	shards := d.Set().Shards
	each := d.Limits.Concurrency / shards
	if shard < d.Limits.Concurrency%shards {
		each++
	}
	return max(1, each) // a registry that went back may have fewer than shards
}
