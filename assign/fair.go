package assign

import "slices"

// FairShare gives each member one contiguous block of units, in the order of the member IDs; the
// first ones get the units left over. It ignores zones and current owners, so a change of members
// moves more units than needed: about 1.4 times as many with 8 units, 3.7 times with 256. Choose it
// when it should be easy to predict which member has which unit.
type FairShare struct{}

// Name is "fair".
func (FairShare) Name() string { return "fair" }

// Assign implements Assignor.
func (FairShare) Assign(req Request) Assignment {
	members := sorted(req.Members)
	next := make(Assignment, len(req.Current))
	u := 0
	for i, share := range entitle(members, len(next)).inOrder() {
		for range share {
			next[u] = members[i].ID
			u++
		}
	}
	return next
}

// RoundRobin deals the units like cards, one at a time, to the members in the order of their IDs; a
// member whose weighted share is full is passed over. It spreads neighbouring units, and ignores
// zones and current owners.
type RoundRobin struct{}

// Name is "roundrobin".
func (RoundRobin) Name() string { return "roundrobin" }

// Assign implements Assignor.
func (RoundRobin) Assign(req Request) Assignment {
	members := sorted(req.Members)
	next := make(Assignment, len(req.Current))
	left := entitle(members, len(next)).inOrder()
	table := newTable(left)
	for u := range next {
		i, ok := table.deal()
		if !ok {
			break
		}
		next[u] = members[i].ID
	}
	return next
}

// table deals units to the seats that have room, one each in turn.
type table struct {
	seats []int // members with room, in order
	room  []int // by member; shared with the caller
	turn  int
}

func newTable(room []int) *table {
	t := &table{room: room}
	for i, n := range room {
		if n > 0 {
			t.seats = append(t.seats, i)
		}
	}
	return t
}

// deal names the next member with room and takes one place there; false when all are full. Full
// seats are dropped once a round, so that dealing n units costs O(n + seats).
func (t *table) deal() (int, bool) {
	for {
		if t.turn == len(t.seats) {
			t.seats, t.turn = slices.DeleteFunc(t.seats, func(i int) bool { return t.room[i] <= 0 }), 0
			if len(t.seats) == 0 {
				return 0, false
			}
		}
		i := t.seats[t.turn]
		t.turn++
		if t.room[i] > 0 {
			t.room[i]--
			return i, true
		}
	}
}
