package subscription

import (
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// The shard sets of a definition. There is exactly one that delivers, beside it at most one that is being made
// or one that is to end, and those that were retired lately. As shows the definition as one set sees it: that is
// what shards, journals and groups are made from, so that no code of a shard asks which set it is of.

// Set is a shard set: who delivers, and the internal topics that keep what is parked. Its ID is in
// their names and in each record of theirs, and is never used again.
type Set struct {
	Set     int    `json:"set"`
	ID      string `json:"id"`
	Storage int    `json:"storage,omitempty"` // the storage topic of the main topic that it delivers
	Shards  int    `json:"shards"`
	State   string `json:"state"`              // making, active, closing, retired
	Since   int64  `json:"since,omitempty"`    // Unix ms: when that began; 0: with the subscription
	Pause   int64  `json:"pause_ms,omitempty"` // at the turn to it: how long a shard of it delivered nothing, at most
	// Of a reset, until the set turns itself: the offset at which it begins in each partition, or AsItWas.
	Starts []int64 `json:"starts,omitempty"`
	Shed   bool    `json:"shed,omitempty"` // and what was parked in those partitions is not handed over
}

// OfShards is what a definition has that asks for so many shards; 0: for the default.
func OfShards(n int) []Set {
	if n == 0 {
		return nil
	}
	return []Set{{Shards: n}}
}

// The life of a shard set. One is active, from the second to the third step of a turn together with the one
// before it, which is closing: that delivers what it has begun, and ends.
const (
	making  = "making" // its topics are
	active  = "active"
	closing = "closing"
	retired = "retired" // its shards have ended, and nobody needs them any more
)

// Set is the shard set that delivers; the zero value of a damaged definition.
func (d *Document) Set() (last Set) {
	for _, s := range d.Sets {
		if s.State == active || last.ID == "" {
			last = s
		}
	}
	return last
}

// Turning says whether a turn of the shard set is under way.
func (d *Document) Turning() bool {
	return slices.ContainsFunc(d.Sets, func(s Set) bool { return s.State == making || s.State == closing })
}

// Serving are the sets that have to run: the one that delivers, and before it one that is to end.
func (d *Document) Serving() (all []*Document) {
	for _, s := range d.Sets {
		if s.State == active || s.State == closing {
			all = append(all, d.As(s))
		}
	}
	return all
}

// All are the definitions of all sets, those that are not there any more but for the first.
func (d *Document) All() (all []*Document) {
	for _, s := range d.Sets {
		all = append(all, d.As(s))
	}
	return all
}

// As is the definition as the shards of one set see it: that set is the one that delivers.
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

// Before is the definition as the set before the one that delivers sees it; nil: there is none.
func (d *Document) Before() *Document {
	for i, s := range d.Sets {
		if s.ID == d.Set().ID && i > 0 {
			return d.As(d.Sets[i-1])
		}
	}
	return nil
}

// Closing is the set that is to end; false: none is.
func (d *Document) Closing() (Set, bool) {
	i := slices.IndexFunc(d.Sets, func(s Set) bool { return s.State == closing })
	if i < 0 {
		return Set{}, false
	}
	return d.Sets[i], true
}

// Has says whether there is a set with that ID.
func (d *Document) Has(set string) bool {
	return slices.ContainsFunc(d.Sets, func(s Set) bool { return s.ID == set })
}

// Topics are those that it delivers, or keeps what is parked in.
func (d *Document) Topics() []string {
	all := []string{d.Topic}
	for _, set := range d.All() {
		all = append(all, set.JournalTopic(), set.DeadTopic())
	}
	return all
}

// checkSets bounds what is done shard by shard, and keeps the internal topics to names that a creation
// gives. Whose they are says Catalog.parts.
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
		case s.Since < 0 || s.Since > lastMillis || s.Pause < 0 || s.Pause > lastMillis:
			return fmt.Errorf("shard set %s has a time before 1970 or after 9999", s.ID)
		case !soundStarts(&s):
			return fmt.Errorf("shard set %s begins at %d offsets that no reset gives", s.ID, len(s.Starts))
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

// MaxShare is how many partitions a shard reads at most.
const MaxShare = 1024

// CheckShards says whether a topic of so many partitions can be shared by so many shards.
func CheckShards(shards, partitions int) error {
	if shards < 1 || shards > partitions || (partitions+shards-1)/shards > MaxShare {
		return fmt.Errorf("%d shards; expected 1 to %d, as the topic has so many partitions, and at most %d of those a shard: %w", shards, partitions, MaxShare, fault.Invalid)
	}
	return nil
}
