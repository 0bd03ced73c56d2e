package assign

import (
	"cmp"
	"slices"
)

// Sticky is the default rule. Its priorities, highest first:
//
//  1. every unit has exactly one owner;
//  2. each member has its weighted share, within one;
//  3. the fewest units move: no assignment with these shares moves fewer. Units of members that
//     are gone are shared out, every other unit stays unless balance demands a move;
//  4. units are owned in their zone: members give up units of other zones first, and free
//     units go to a member of their zone while one has room. A unit never moves for the sake
//     of its zone alone.
type Sticky struct{}

// Name is "sticky".
func (Sticky) Name() string { return "sticky" }

// Assign implements Assignor.
func (Sticky) Assign(req Request) Assignment {
	next := make(Assignment, len(req.Current))
	if len(req.Members) == 0 {
		return next
	}
	p := newPlan(req)
	p.favourHolders()
	p.collect()
	p.favourZones()
	p.place()
	for u, i := range p.owner {
		next[u] = p.members[i].ID
	}
	return next
}

const nobody = -1

// plan is the state of one run of Sticky. Members and zones are numbers: indexes in sorted order.
type plan struct {
	members []Member
	ent     entitlement
	owner   []int   // by unit: its member, or none
	held    [][]int // by member: its units now, ascending
	zoneOf  []int   // by member: its zone; 0 is "anywhere", which matches nothing
	zone    []int   // by unit; all 0 when the request has no zones
	zones   int
	room    []int // by member: units still to be given to it
	free    []int // units without an owner, ascending
}

func newPlan(req Request) *plan {
	p := &plan{members: sorted(req.Members), owner: make([]int, len(req.Current)), zone: make([]int, len(req.Current))}
	p.ent = entitle(p.members, len(req.Current))
	p.room = make([]int, len(p.members))
	p.held = make([][]int, len(p.members))
	p.zoneOf = make([]int, len(p.members))
	index := make(map[string]int, len(p.members))
	zone := map[string]int{"": 0}
	for i, m := range p.members {
		index[m.ID] = i
		if _, ok := zone[m.Zone]; !ok {
			zone[m.Zone] = len(zone)
		}
		p.zoneOf[i] = zone[m.Zone]
	}
	p.zones = len(zone)
	for u, id := range req.Current {
		p.owner[u] = nobody
		if i, ok := index[id]; ok {
			p.owner[u] = i
			p.held[i] = append(p.held[i], u)
		}
		if u < len(req.Zones) {
			p.zone[u] = zone[req.Zones[u]] // a zone without members is as good as none
		}
	}
	return p
}

// match reports whether the unit is in its zone with the member.
func (p *plan) match(u, member int) bool { return p.zone[u] != 0 && p.zone[u] == p.zoneOf[member] }

// favourHolders gives the spare places first to the tied members that hold more than their
// certain share, as each of these places saves a move; among them to those that would otherwise
// have to part with a unit of their own zone.
func (p *plan) favourHolders() {
	var holders, others []int
	for _, i := range p.ent.tied {
		if len(p.held[i]) > p.ent.share[i] {
			holders = append(holders, i)
		} else {
			others = append(others, i)
		}
	}
	atHome := func(i int) int {
		n := 0
		for _, u := range p.held[i] {
			if p.match(u, i) {
				n++
			}
		}
		return min(0, p.ent.share[i]-n) // below zero when one of them would have to go
	}
	slices.SortStableFunc(holders, func(a, b int) int { return cmp.Compare(atHome(a), atHome(b)) })
	for _, i := range holders[:min(p.ent.spare, len(holders))] {
		p.ent.share[i]++
		p.ent.spare--
	}
	p.ent.tied = others
	for i, share := range p.ent.share {
		p.room[i] = max(0, share-len(p.held[i]))
	}
}

// collect frees the units without a live owner and those above the share of their owner: first
// units that their own zone has room for, then others that are not in their zone, then any.
func (p *plan) collect() {
	wanted := p.roomByZone()
	for u, i := range p.owner {
		if i == nobody && wanted[p.zone[u]] > 0 {
			wanted[p.zone[u]]--
		}
	}
	for i, units := range p.held {
		surplus := len(units) - p.ent.share[i]
		surplus = p.giveUp(i, surplus, func(u int) bool {
			if p.match(u, i) || wanted[p.zone[u]] == 0 {
				return false
			}
			wanted[p.zone[u]]--
			return true
		})
		surplus = p.giveUp(i, surplus, func(u int) bool { return !p.match(u, i) })
		p.giveUp(i, surplus, func(int) bool { return true })
	}
	for u, i := range p.owner {
		if i == nobody {
			p.free = append(p.free, u)
		}
	}
}

// giveUp frees at most surplus of the member's units that may go, the last ones first, and returns
// how many are still too many.
func (p *plan) giveUp(member, surplus int, may func(unit int) bool) int {
	units := p.held[member]
	for k := len(units) - 1; k >= 0 && surplus > 0; k-- {
		if u := units[k]; p.owner[u] == member && may(u) {
			p.owner[u] = nobody
			surplus--
		}
	}
	return surplus
}

func (p *plan) roomByZone() []int {
	room := make([]int, p.zones)
	for i, n := range p.room {
		if p.zoneOf[i] != 0 {
			room[p.zoneOf[i]] += n
		}
	}
	return room
}

// favourZones gives the spare places that are left to tied members of the zones that have more
// free units than room, then to the first ones.
func (p *plan) favourZones() {
	short := make([]int, p.zones)
	for z, n := range p.roomByZone() {
		short[z] = -n
	}
	for _, u := range p.free {
		short[p.zone[u]]++
	}
	var rest []int
	for _, i := range p.ent.tied {
		if z := p.zoneOf[i]; p.ent.spare > 0 && z != 0 && short[z] > 0 {
			short[z]--
			p.ent.spare--
			p.room[i]++
		} else {
			rest = append(rest, i)
		}
	}
	for _, i := range rest[:p.ent.spare] {
		p.room[i]++
	}
}

// place gives the free units to members of their zone in turn, then the rest to members with room.
func (p *plan) place() {
	tables := make([]*table, p.zones)
	for z := 1; z < p.zones; z++ {
		tables[z] = &table{room: p.room}
	}
	for i, z := range p.zoneOf {
		if z != 0 {
			tables[z].seats = append(tables[z].seats, i)
		}
	}
	rest := p.free[:0]
	for _, u := range p.free {
		if z := p.zone[u]; z != 0 {
			if i, ok := tables[z].deal(); ok {
				p.owner[u] = i
				continue
			}
		}
		rest = append(rest, u)
	}
	all := newTable(p.room)
	for _, u := range rest {
		p.owner[u], _ = all.deal()
	}
}
