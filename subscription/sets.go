package subscription

import (
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// The shard sets of a definition: exactly one delivers; beside it at most one is being made or is to end, and
// some were retired lately. As shows the definition as one set sees it. Shards, journals and groups are made
// from that, so no code of a shard asks which set it is of.

// Set is a shard set: the shards that deliver, and the internal topics that keep what is parked.
// Its ID is in the names and in each record of those topics, and is never used again.
type Set struct {
	Set     int    `json:"set"`
	ID      string `json:"id"`
	Storage int    `json:"storage,omitempty"` // the storage topic of the main topic that it delivers
	Shards  int    `json:"shards"`
	State   string `json:"state"`              // making, active, closing, retired
	Since   int64  `json:"since,omitempty"`    // Unix ms: when that began; 0: with the subscription
	Pause   int64  `json:"pause_ms,omitempty"` // at its reshard: how long one of its shards delivered nothing, at most
	// Of a reset, until the next reshard: the offset at which it begins in each partition, or AsItWas.
	Starts []int64 `json:"starts,omitempty"`
	Shed   bool    `json:"shed,omitempty"` // the records parked in those partitions are not handed over
}

// OfShards returns the sets of a definition that asks for so many shards; 0: for the default.
func OfShards(n int) []Set {
	if n == 0 {
		return nil
	}
	return []Set{{Shards: n}}
}

// The states of a shard set. One is active; from the second to the third step of a reshard, the one before
// it is closing: it delivers what it has begun, and ends.
const (
	making  = "making" // its topics are being made
	active  = "active"
	closing = "closing"
	retired = "retired" // its shards have ended, and it is needed no more
)

// Set returns the shard set that delivers; the zero value for a damaged definition.
func (d *Document) Set() (last Set) {
	for _, s := range d.Sets {
		if s.State == active || last.ID == "" {
			last = s
		}
	}
	return last
}

// Turning reports whether a reshard is under way.
func (d *Document) Turning() bool {
	return slices.ContainsFunc(d.Sets, func(s Set) bool { return s.State == making || s.State == closing })
}

// Serving returns the sets that have to run: the one that delivers, and before it one that is to end.
func (d *Document) Serving() (all []*Document) {
	for _, s := range d.Sets {
		if s.State == active || s.State == closing {
			all = append(all, d.As(s))
		}
	}
	return all
}

// All returns the definitions of all sets, without the gone ones except the first.
func (d *Document) All() (all []*Document) {
	for _, s := range d.Sets {
		all = append(all, d.As(s))
	}
	return all
}

// As returns the definition as the shards of one set see it: that set is the one that delivers.
func (d *Document) As(set Set) *Document {
	out := *d
	out.Sets = slices.Clone(d.Sets)
	for i := range out.Sets {
		switch s := &out.Sets[i]; {
		case s.ID == set.ID:
			s.State = active
		case s.State == active:
			s.State = closing
		}
	}
	return &out
}

// Before returns the definition as the set before the active one sees it; nil: there is none.
func (d *Document) Before() *Document {
	for i, s := range d.Sets {
		if s.ID == d.Set().ID && i > 0 {
			return d.As(d.Sets[i-1])
		}
	}
	return nil
}

// Closing returns the set that is to end; false: there is none.
func (d *Document) Closing() (Set, bool) {
	i := slices.IndexFunc(d.Sets, func(s Set) bool { return s.State == closing })
	if i < 0 {
		return Set{}, false
	}
	return d.Sets[i], true
}

// Has reports whether there is a set with that ID.
func (d *Document) Has(set string) bool {
	return slices.ContainsFunc(d.Sets, func(s Set) bool { return s.ID == set })
}

// Topics returns the topics that it delivers, or keeps what is parked in.
func (d *Document) Topics() []string {
	all := []string{d.Topic, d.DecidedTopic()}
	for _, set := range d.All() {
		all = append(all, set.JournalTopic(), set.DeadTopic())
	}
	return all
}

// checkSets bounds the work per shard, and limits the internal topics to names that a creation gives.
// Catalog.parts checks their owner.
func checkSets(sets []Set) error {
	if len(sets) < 1 || len(sets) > maxSets {
		return fmt.Errorf("%d shard sets; expected 1 to %d", len(sets), maxSets)
	}
	seen, last, place := map[string]bool{}, -1, 0
	count := map[string]int{}
	for i, s := range sets {
		at := slices.Index([]string{retired, closing, active, making}, s.State)
		switch {
		case seen[s.ID] || s.Set <= last || i == 0 && s.Set != 0 || s.Set > maxSetNumber:
			return fmt.Errorf("shard set %.20q is number %d in place %d, or is there twice", s.ID, s.Set, i)
		case !isSetID(s.ID):
			return fmt.Errorf("a shard set with the ID %.20q; expected %d small letters and digits", s.ID, setIDBytes)
		case s.Storage < 0 || s.Storage > maxStorage:
			return fmt.Errorf("shard set %s delivers storage topic %d; expected 0 to %d", s.ID, s.Storage, maxStorage)
		case s.Shards < 1 || s.Shards > commitlog.MaxPartitions:
			return fmt.Errorf("shard set %s of %d shards; expected 1 to %d", s.ID, s.Shards, commitlog.MaxPartitions)
		case at < place:
			return fmt.Errorf("shard set %s is %.20q in place %d", s.ID, s.State, i)
		}
		seen[s.ID], last, place = true, s.Set, at
		count[s.State]++
	}
	if count[active] != 1 || count[closing] > 1 || count[making] > 1 || count[closing]+count[making] > 1 {
		return fmt.Errorf("%d active shard sets, %d closing and %d being made", count[active], count[closing], count[making])
	}
	return nil
}

const (
	maxStorage   = 1<<20 - 1 // an origin has room for it
	maxSetNumber = 1 << 30
)

// MaxShare is the largest number of partitions that a shard reads.
const MaxShare = 1024

// CheckShards checks that so many shards can share a topic of so many partitions.
func CheckShards(shards, partitions int) error {
	if shards < 1 || shards > partitions || (partitions+shards-1)/shards > MaxShare {
		return fmt.Errorf("%d shards; expected 1 to %d, as the topic has so many partitions, and at most %d of those a shard: %w", shards, partitions, MaxShare, fault.Invalid)
	}
	return nil
}
