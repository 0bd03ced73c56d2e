package assign

// leastSlots is the least number of slots of an anchor's bucket, and half of the most. Two buckets
// differ by one slot at most, and so by 1/64.
const leastSlots = 64

// dealer deals slots out to buckets, one bucket after the other: each takes its share from those
// that have most, and no slot moves between others. So one more bucket takes 1/(n+1) of all slots,
// and the number of buckets alone decides where each slot is.
//
// There are 64 slots for one bucket. Whenever the buckets have doubled, each slot is halved, which
// moves nothing: slots are the first bits of a hash.
type dealer struct {
	size   int        // slots
	slots  [][]uint32 // by bucket
	levels [][]uint16 // buckets by their number of slots, in the order in which they reached it
}

// deal returns the bucket of each slot; n is from 1 to MaxAnchorMembers.
func deal(n int) []uint16 {
	d := &dealer{size: leastSlots, slots: make([][]uint32, 1, n), levels: make([][]uint16, 2*leastSlots+1)}
	for s := range uint32(leastSlots) {
		d.slots[0] = append(d.slots[0], s)
	}
	d.levels[leastSlots] = []uint16{0}
	for len(d.slots) < n {
		d.add()
	}
	bucket := make([]uint16, d.size)
	for b, slots := range d.slots {
		for _, s := range slots {
			bucket[s] = uint16(b) //nolint:gosec // MaxAnchorMembers is less
		}
	}
	return bucket
}

// add adds a bucket.
func (d *dealer) add() {
	fresh := len(d.slots)
	if fresh&(fresh-1) == 0 {
		d.halve()
	}
	share := d.size / (fresh + 1)
	slots := make([]uint32, 0, 2*share)
	for most := len(d.levels) - 1; len(slots) < share; {
		if len(d.levels[most]) == 0 {
			most--
			continue
		}
		b := d.levels[most][0]
		d.levels[most] = d.levels[most][1:]
		d.levels[most-1] = append(d.levels[most-1], b)
		last := len(d.slots[b]) - 1
		slots = append(slots, d.slots[b][last])
		d.slots[b] = d.slots[b][:last]
	}
	d.slots = append(d.slots, slots)
	d.levels[share] = append(d.levels[share], uint16(fresh)) //nolint:gosec // MaxAnchorMembers is less
}

// halve makes two slots of each.
func (d *dealer) halve() {
	d.size *= 2
	for b, slots := range d.slots {
		halves := make([]uint32, 0, 2*len(slots))
		for _, s := range slots {
			halves = append(halves, 2*s, 2*s+1)
		}
		d.slots[b] = halves
	}
	// The buckets are as many as a power of two, so each had 64.
	d.levels[2*leastSlots], d.levels[leastSlots] = d.levels[leastSlots], nil
}
