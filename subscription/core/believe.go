package core

import "math/bits"

// An epoch comes from the registry, which gives the time (protocol.NextEpoch), or one more than the last where
// that is later. So a fence far beyond the time, and far beyond the fence before it, is no owner's: an owner
// would have to be claimed above it, one forged record would leave no epoch for the shard, and each would bring
// the end nearer. All who read a journal have to agree on what counts in it, whenever they read and wherever they
// begin. That is why the bound is a matter of the journal alone, and of no clock: the fence at which a reader
// begins (From) counted for who stored that place.
const (
	// FarEpoch is later than any time at which an epoch is given: in 2020 and 8,900 years.
	FarEpoch = 1 << 48
	// epochStep is how many owners there may have been of a shard between two fences.
	epochStep = 1 << 20
)

// believable tells whether the registry can have given an epoch to the owner after those that are known.
func (s *State) believable(epoch int64) bool {
	return epoch <= max(s.level.Epoch, FarEpoch)+epochStep || s.cfg.From > 0 && s.level == Tenure{}
}

// refuse passes over a fence. A start whose own it is can't write anything that counts.
func (s *State) refuse(place int64, by Tenure, own bool) {
	s.forged++
	if own {
		s.phase, s.effects, s.queue, s.flight, s.heads = over, nil, nil, nil, nil
	}
	if own || bits.OnesCount(uint(s.forged)) == 1 && s.cfg.Tenure != (Tenure{}) { // who only looks carries out nothing
		s.emit(Forged{Place: place, By: by, Count: s.forged, Own: own})
	}
}
