package topic

import (
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
)

// check says what is wrong with a definition that is stored at a key.
func (d *Document) check(key string) error {
	last := len(d.Storage) - 1
	switch {
	case d.Format < format:
		return fmt.Errorf("expected a topic definition of format %d, found %d", format, d.Format)
	case prefix+d.Name != key: // what is stored for it would come to another key
		return fmt.Errorf("the definition of a topic that is called %.*q", MaxNameBytes, d.Name)
	case d.Produce < 0 || d.Produce > last:
		return fmt.Errorf("a topic with %d storage topics and produce pointer %d", last+1, d.Produce)
	case len(d.Internal) > maxInternalBytes:
		return fmt.Errorf("a part of something whose name has %d bytes; at most %d are allowed", len(d.Internal), maxInternalBytes)
	}
	for i := range d.Storage {
		if err := d.checkStorage(i); err != nil {
			return err
		}
	}
	if n := d.Units(); n > protocol.MaxUnits {
		return fmt.Errorf("a topic of %d partitions in %d storage topics; at most %d are allowed", n, last+1, protocol.MaxUnits)
	}
	return checkLife(d.Life)
}

// checkStorage refuses storage topics that can't have followed one another. Those before the produce
// pointer were sealed, and say where they end: readers go on behind that. The one that takes records has no
// end, and is given up only for one that exists, as a seal is for good.
func (d *Document) checkStorage(i int) error {
	s := &d.Storage[i]
	switch {
	case s.Retired && (i >= d.Produce || i > 0 && !d.Storage[i-1].Retired), s.Clearing && !s.Retired:
		return fmt.Errorf("storage topic %d is retired, and not one before it or the one that takes new records", i)
	case s.Partitions < 1 || s.Partitions > commitlog.MaxPartitions || s.K < 1 || s.Partitions%s.K != 0:
		return fmt.Errorf("storage topic %d with %d partitions and K %d", i, s.Partitions, s.K)
	case i < d.Produce && !s.Retired && len(s.Ends) != s.Partitions:
		return fmt.Errorf("storage topic %d of %d partitions ends at %v, and %d takes new records; expected the end of each", i, s.Partitions, s.Ends, d.Produce)
	case i >= d.Produce && len(s.Ends) > 0, slices.ContainsFunc(s.Ends, func(end int64) bool { return end < 0 }):
		return fmt.Errorf("storage topic %d ends at %v, and %d takes new records; expected no end, or one from 0 on", i, s.Ends, d.Produce)
	}
	return nil
}
