package protocol

// An epoch is the first half of the fencing token outside of the store: receivers refuse a lower token of a key. So no
// epoch may be given twice, not even by a store that went back, such as a restored backup. That is why an
// epoch is not only higher than the stored one: it is at least the time, by the store's own clock, at which
// it is given. The epochs that the store has forgotten were given before that.

// epochZero is the time at which an epoch would have been 0: the beginning of 2020, in Unix ms.
const epochZero = 1_577_836_800_000

// NextEpoch returns the epoch after last, given at that time of the store (Unix ms): the milliseconds
// since the beginning of 2020, or one more than the last where changes are faster. An epoch that a store
// that went back has forgotten was given earlier, so it is lower. Epochs have gaps: Owner.After says which
// one an epoch followed.
func NextEpoch(last, now int64) int64 { return max(last+1, now-epochZero) }
