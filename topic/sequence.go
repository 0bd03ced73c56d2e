package topic

import (
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
)

// checkSequence refuses storage topics that can't have followed one another. Those before the produce
// pointer were sealed, and say where they end: readers go on behind that. The one that takes records has no
// end, and is given up only for one that exists, as a seal is for good.
func (d *Document) checkSequence() error {
	last := len(d.Storage) - 1
	for i := range d.Storage {
		s := &d.Storage[i]
		switch {
		case s.Creating && (i <= d.Produce || i < last):
			return fmt.Errorf("storage topic %d is being made, and %d takes new records; expected the last one, which takes none: %w", i, d.Produce, fault.Corrupt)
		case i < d.Produce && !s.Retired && len(s.Ends) != s.Partitions:
			return fmt.Errorf("storage topic %d of %d partitions ends at %v, and %d takes new records; expected the end of each: %w", i, s.Partitions, s.Ends, d.Produce, fault.Corrupt)
		case i >= d.Produce && len(s.Ends) > 0:
			return fmt.Errorf("storage topic %d ends at %v, and %d takes new records; expected no end: %w", i, s.Ends, d.Produce, fault.Corrupt)
		}
	}
	if d.Switching && (d.Produce == last || d.Storage[d.Produce+1].Creating) {
		return fmt.Errorf("storage topic %d is to be sealed, and none that is there follows: %w", d.Produce, fault.Corrupt)
	}
	return nil
}
