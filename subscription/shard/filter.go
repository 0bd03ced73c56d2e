package shard

import "github.com/ringfence/ringfence/dispatch"

// wanted reports whether the filter is true of a record. The error is that it can't be computed: whether the record
// was to be delivered is unknown, so it is given up at once, in its place in the order of its key.
func (s *Shard) wanted(r *dispatch.Record) (bool, error) {
	filter := s.terms.Load().Filter
	if filter == nil {
		return true, nil
	}
	wanted, err := filter(r)
	if err != nil {
		return false, Permanent(err)
	}
	return wanted, nil
}
