package topic_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A model of retirement: small steps of producers, members, retention, seeks, deletions and retirers in
// random order, each of which may be stopped for long or for ever between two of them. Each storage topic
// has two partitions, each with the records of one key.

// What a wrong protocol would do.
const (
	takesRecords           = "it does not look whether records are left"
	takesAnyway            = "it does not look at the groups"
	takesInHand            = "a member that has records in hand and no checkpoint does not count"
	clearsAnyLife          = "it clears without a look at the definition"
	clearsAtOnce           = "it removes checkpoints before the group's document says that the units are passed"
	trustsPassed           = "a unit that is passed and has no checkpoint is not finished"
	seeksBlindly           = "a seek does not look again"
	seeksByAnOldDefinition = "a seek does not check the definition"
)

const modelParts = 2

type modelStorage struct {
	retired, clearing bool
	end               [modelParts]int // once it is sealed
}

type modelDoc struct {
	life, version, produce int
	storage                []modelStorage
}

func (d modelDoc) clone() modelDoc {
	d.storage = slices.Clone(d.storage)
	return d
}

type modelLog struct {
	gone    bool
	first   [modelParts]int
	records [modelParts][]int // numbers of the key's records
}

// modelUnit is what a group has of one partition.
type modelUnit struct {
	checkpoint int // -1: none
	owner      bool
	hand       int  // offset of a record that a handler has; -1: none
	done       bool // it was finished, and nobody has sent it back since
}

type modelGroup struct {
	first   int
	units   []modelUnit
	doc     modelDoc                 // as its members know it
	owed    [modelParts]map[int]bool // records that have to be handled, by key
	seeking [modelParts]bool         // somebody has sent the group back, and has not been told yet whether it is there
	astray  [modelParts]bool         // and meanwhile it passed something
}

type modelActor struct {
	step  int
	doc   modelDoc
	which int // storage topic, or unit
	at    int
	group *modelGroup
}

type model struct {
	r       *rand.Rand
	bug     string
	doc     modelDoc
	logs    map[[2]int]*modelLog // by life and storage topic
	sent    [modelParts]int
	group   *modelGroup // nil: there is none
	retirer [2]*modelActor
	seeker  *modelActor
	wrong   string
	retired int
	version int
}

func newModel(seed uint64, bug string) *model {
	return &model{r: rand.New(rand.NewPCG(seed, 38)), bug: bug, logs: map[[2]int]*modelLog{}}
}

func (m *model) note(format string, args ...any) {
	if m.wrong == "" {
		m.wrong = fmt.Sprintf(format, args...)
	}
}

func (m *model) change(d modelDoc) {
	m.version++
	m.doc = d
	m.doc.version = m.version
}

func (m *model) begin() {
	m.group = nil
	m.change(modelDoc{life: m.doc.life + 1})
	m.add()
}

func (m *model) add() {
	d := m.doc.clone()
	m.logs[[2]int{d.life, len(d.storage)}] = &modelLog{}
	d.storage = append(d.storage, modelStorage{})
	m.change(d)
}

func (m *model) log(d modelDoc, storage int) *modelLog { return m.logs[[2]int{d.life, storage}] }

func (m *model) produce() {
	l, p := m.log(m.doc, m.doc.produce), m.r.IntN(modelParts)
	l.records[p] = append(l.records[p], m.sent[p])
	if m.group != nil {
		m.group.owed[p][m.sent[p]] = true
	}
	m.sent[p]++
}

func (m *model) grow() {
	if len(m.doc.storage) == 5 {
		return
	}
	d := m.doc.clone()
	for p := range modelParts {
		d.storage[d.produce].end[p] = len(m.log(d, d.produce).records[p])
	}
	d.produce++
	m.change(d)
	m.add()
	m.doc.storage = m.doc.storage[:d.produce+1]
}

// found makes the group, which needs all that is kept.
func (m *model) found() {
	if m.group != nil {
		return
	}
	m.group = &modelGroup{doc: m.doc.clone()}
	for p := range modelParts {
		m.group.owed[p] = map[int]bool{}
		for i := range m.doc.storage {
			l := m.log(m.doc, i)
			m.group.owe(p, l.records[p][l.first[p]:])
		}
	}
}

func (g *modelGroup) owe(p int, records []int) {
	for _, number := range records {
		g.owed[p][number] = true
	}
}

func (g *modelGroup) forgive(p int, records []int) {
	for _, number := range records {
		delete(g.owed[p], number)
	}
}

func (g *modelGroup) fit(units int) {
	for len(g.units) < units {
		g.units = append(g.units, modelUnit{checkpoint: -1, hand: -1})
	}
}

// finished is what a member that knows d takes a unit for.
func (m *model) finished(g *modelGroup, d modelDoc, n int) bool {
	i, p := n/modelParts, n%modelParts
	s, u := &d.storage[i], &g.units[n]
	switch {
	case s.retired:
		return true
	case i >= d.produce:
		return false
	case s.end[p] == 0 || u.checkpoint >= s.end[p]:
		return true
	}
	return n < g.first && u.checkpoint < 0 && m.bug != trustsPassed
}

// work is a step of a member: it takes a record, or has handled one.
func (m *model) work() {
	g := m.group
	if g == nil {
		return
	}
	d := g.doc
	g.fit(len(d.storage) * modelParts)
	n := m.r.IntN(len(d.storage) * modelParts)
	u, i, p := &g.units[n], n/modelParts, n%modelParts
	if u.hand >= 0 {
		m.deliver(g, u, n)
		return
	}
	for q := p; q < n; q += modelParts {
		if !m.finished(g, d, q) {
			return
		}
	}
	if m.finished(g, d, n) {
		u.done, u.owner = true, false
		return
	}
	if u.done {
		m.note("unit %d is begun again", n)
	}
	u.owner = true
	l := m.log(d, i)
	if l.gone {
		return // and that is told again and again
	}
	at := u.checkpoint
	if at < 0 {
		at = l.first[p]
	}
	switch {
	case at < l.first[p]: // as is this
	case at < len(l.records[p]):
		u.hand = at
	case i < d.produce:
		u.checkpoint = d.storage[i].end[p]
	}
}

func (m *model) deliver(g *modelGroup, u *modelUnit, n int) {
	p := n % modelParts
	number := m.log(m.doc, n/modelParts).records[p][u.hand]
	for before := range g.owed[p] {
		switch {
		case before >= number:
		case g.seeking[p]:
			g.astray[p] = true
		default:
			m.note("key %d: record %d was handled, and not %d before it", p, number, before)
		}
	}
	delete(g.owed[p], number)
	u.checkpoint, u.hand = u.hand+1, -1
}

func (m *model) pass() {
	g := m.group
	if g == nil || g.first/modelParts >= g.doc.produce {
		return
	}
	g.fit(len(g.doc.storage) * modelParts)
	for n := g.first; n < g.first+modelParts; n++ {
		if !m.finished(g, g.doc, n) {
			return
		}
	}
	g.first += modelParts
}

// retain drops records, by force also what the group needs.
func (m *model) retain() {
	force, i, p := m.r.IntN(4) == 0, m.r.IntN(len(m.doc.storage)), m.r.IntN(modelParts)
	l := m.log(m.doc, i)
	to := len(l.records[p])
	if m.r.IntN(3) == 0 {
		to = m.r.IntN(to + 1)
	}
	to = max(to, l.first[p])
	if g, n := m.group, i*modelParts+p; g != nil {
		g.fit(n + 1)
		u := &g.units[n]
		switch passed := n < g.first && u.checkpoint < 0; {
		case !force && !passed:
			to = max(l.first[p], min(to, max(u.checkpoint, 0)))
		case u.checkpoint < 0 && u.hand < 0:
			g.forgive(p, l.records[p][l.first[p]:to]) // it begins behind
		}
	}
	l.first[p] = to
}

// seek is a step of who sends the group to the beginning of what is kept of one storage topic.
func (m *model) seek() {
	a := m.seeker
	switch {
	case a == nil:
		if m.group == nil {
			return
		}
		a = &modelActor{doc: m.doc.clone(), group: m.group}
		i, p := m.r.IntN(len(a.doc.storage)), m.r.IntN(modelParts)
		if a.doc.storage[i].retired {
			return
		}
		a.which, a.at = i*modelParts+p, m.log(a.doc, i).first[p]
		m.seeker = a
	case a.group != m.group: // in another life it is refused
		m.seeker = nil
	case a.step == 0 && a.doc.version != m.doc.version && m.bug != seeksByAnOldDefinition: // as it is by another definition
		m.seeker = nil
	case a.step == 0:
		m.moveBack(a)
		a.step++
	default:
		g, i, p := m.group, a.which/modelParts, a.which%modelParts
		l := m.log(m.doc, i)
		lost := m.bug != seeksBlindly && (m.doc.storage[i].retired || a.at < l.first[p])
		if g.astray[p] && !lost {
			m.note("key %d: the group was sent back, and has passed records in silence", p)
		}
		if lost { // who did it knows, and seeks again
			g.forgive(p, l.records[p][a.at:l.first[p]])
		}
		g.seeking[p], g.astray[p] = false, false
		m.seeker = nil
	}
}

// moveBack moves a unit, and those behind it, which must follow.
func (m *model) moveBack(a *modelActor) {
	g, p := m.group, a.which%modelParts
	g.fit(len(a.doc.storage) * modelParts)
	g.seeking[p], g.astray[p] = true, false
	g.first = min(g.first, a.which)
	for n := a.which; n < len(g.units); n += modelParts {
		u, l := &g.units[n], m.log(m.doc, n/modelParts)
		begun, from := u.checkpoint >= 0, l.first[p]
		u.hand, u.done = -1, false
		if n == a.which {
			from = a.at
		}
		g.forgive(p, l.records[p][:from])
		if begun || n == a.which {
			u.checkpoint = from
			g.owe(p, l.records[p][from:])
		}
	}
}

const (
	readDefinition = iota
	lookAtRecords
	lookAtGroups
	declare
	deleteLog
	forgetUnits
	finish
)

// retire is a step of a retirer.
func (m *model) retire(k int) {
	a := m.retirer[k]
	if a == nil {
		a = &modelActor{doc: m.doc.clone()}
		a.which = slices.IndexFunc(a.doc.storage, func(s modelStorage) bool { return s.clearing })
		if a.step = deleteLog; a.which < 0 {
			a.step = lookAtRecords
			a.which = slices.IndexFunc(a.doc.storage, func(s modelStorage) bool { return !s.retired })
			if a.which >= a.doc.produce || a.doc.storage[a.which].retired {
				return
			}
		}
		m.retirer[k] = a
		return
	}
	s := &a.doc.storage[a.which]
	stop := func(yes bool) {
		if yes {
			m.retirer[k] = nil
		}
	}
	switch a.step {
	case lookAtRecords:
		l := m.log(a.doc, a.which)
		for p := range modelParts {
			stop(m.bug != takesRecords && (l.gone || l.first[p] < len(l.records[p])))
		}
	case lookAtGroups:
		g := m.group
		for p := 0; p < modelParts && g != nil && m.bug != takesAnyway; p++ {
			n := a.which*modelParts + p
			if n < len(g.units) && s.end[p] > 0 {
				u := &g.units[n]
				stop(u.checkpoint >= 0 && u.checkpoint < s.end[p] || u.checkpoint < 0 && u.owner && m.bug != takesInHand)
			}
		}
	case declare:
		if stop(m.doc.version != a.doc.version); m.retirer[k] != nil {
			s.retired, s.clearing = true, true
			m.change(a.doc.clone())
			a.doc.version = m.doc.version
			m.retired++
		}
	case deleteLog:
		m.log(a.doc, a.which).gone = true
	case forgetUnits:
		if stop(m.doc.version != a.doc.version && m.bug != clearsAnyLife); m.retirer[k] != nil && m.group != nil {
			m.forget(a)
		}
	case finish:
		if m.doc.version == a.doc.version {
			s.clearing = false
			m.change(a.doc.clone())
		}
		stop(true)
	}
	a.step++
}

func (m *model) forget(a *modelActor) {
	g, to := m.group, (a.which+1)*modelParts
	g.fit(to)
	if m.bug != clearsAtOnce {
		g.first = max(g.first, to)
	}
	for n := range to {
		g.units[n].checkpoint, g.units[n].owner = -1, false
	}
}

func (m *model) run(steps int) {
	m.begin()
	type action struct {
		weight int
		do     func()
	}
	actions := []action{
		{6, m.produce}, {2, m.grow}, {3, m.found}, {30, m.work}, {4, m.pass}, {8, m.retain}, {2, m.seek},
		{8, func() { m.retire(0) }}, {8, func() { m.retire(1) }},
		{6, func() { // a member hears of the definition
			if m.group != nil {
				m.group.doc = m.doc.clone()
			}
		}},
		{1, func() { m.retirer[m.r.IntN(2)] = nil }}, // a crash
	}
	if m.r.IntN(4) == 0 {
		actions = append(actions, action{1, m.begin})
	}
	total := 0
	for _, a := range actions {
		total += a.weight
	}
	for range steps {
		n := m.r.IntN(total)
		for _, a := range actions {
			if n -= a.weight; n < 0 {
				a.do()
				break
			}
		}
		if m.wrong != "" {
			return
		}
	}
}

// The protocol skips nothing and keeps the order, and the model would notice if it did not.
func TestRetirementIsSafeInTheModel(t *testing.T) {
	t.Parallel()
	const histories, steps = 10_000, 250
	retired := 0
	for seed := range uint64(histories) {
		m := newModel(seed, "")
		if m.run(steps); m.wrong != "" {
			t.Fatalf("seed %d: %s", seed, m.wrong)
		}
		retired += m.retired
	}
	if retired < histories/10 {
		t.Errorf("%d storage topics were retired in %d histories: the model shows little", retired, histories)
	}
	for _, bug := range []string{takesRecords, takesAnyway, takesInHand, clearsAnyLife, clearsAtOnce, trustsPassed, seeksBlindly, seeksByAnOldDefinition} {
		found := ""
		for seed := uint64(0); seed < histories && found == ""; seed++ {
			m := newModel(seed, bug)
			m.run(steps)
			found = m.wrong
		}
		if found == "" {
			t.Errorf("not noticed: %s", bug)
		}
		t.Logf("%s: %s", bug, found)
	}
}
