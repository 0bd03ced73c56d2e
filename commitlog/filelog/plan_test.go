package filelog

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
)

const (
	planTopic  = 7
	planRoom   = 12 << 10
	planFrames = planRoom - 2*segment.Block
)

// written is a frame of the model's log.
type writtenFrame struct {
	at        segment.Pos
	length    int64 // without padding
	partition int
	base      int64
	count     int
	synced    bool // all of it was on stable storage, and acknowledged
}

// model is a log in memory, its errors, its crash and its damage.
type model struct {
	rng    *rand.Rand
	files  map[uint64][]byte // as everybody sees them who lives
	disk   map[uint64][]byte // what stable storage has of them
	heads  map[uint64]*segment.Header
	frames []writtenFrame
	end    segment.Pos
	chain  uint32
	next   []int64
	synced segment.Pos
	hints  []segment.Pos
	oldest uint64
	trim   []int64
	lazy   bool          // at level os: hardly ever synced
	hurt   []segment.Pos // bytes that were promised and are damaged
}

func newModel(seed uint64) *model {
	m := &model{rng: rand.New(rand.NewPCG(seed, 5)), files: map[uint64][]byte{}, disk: map[uint64][]byte{}, heads: map[uint64]*segment.Header{}, next: make([]int64, 2), trim: make([]int64, 2), oldest: 1}
	m.start(1)
	m.sync()
	m.lazy = m.rng.IntN(2) == 0
	for range 5 + m.rng.IntN(60) {
		switch m.rng.IntN(20) {
		case 0, 1, 2, 3:
			if !m.lazy || m.rng.IntN(16) == 0 {
				m.sync()
			}
		case 4, 5:
			m.giveUp()
		case 6:
			m.drop()
		case 7:
			m.fail()
		case 8:
			m.writeBack()
		default:
			m.append()
		}
	}
	return m
}

func (m *model) start(n uint64) {
	h := &segment.Header{TopicID: planTopic, Number: n, Size: planRoom, PrevEnd: m.end.Off(), Synced: m.synced, Bases: slices.Clone(m.next), Salt: m.rng.Uint64()}
	if before := m.heads[m.end.Number()]; before != nil {
		h.PrevCRC = before.CRC
	}
	data := segment.AppendHeader(nil, h)
	data = append(append(data, make([]byte, planFrames)...), data...)
	m.files[n], m.heads[n] = data, h
	if m.disk[n] == nil {
		m.disk[n] = make([]byte, len(data))
	}
	m.end, m.chain = segment.At(n, h.Length), h.CRC
}

// giveUp starts the next segment, and is killed before anybody learns of it.
func (m *model) giveUp() {
	end, chain, n := m.end, m.chain, m.end.Number()
	m.start(n + 1)
	m.end, m.chain = end, chain
	delete(m.heads, n+1)
}

// fail has a write or a sync fail: the log is cut at a frame that was not promised or at its end, and
// goes on in the next segment. What stood behind the cut may still be there.
func (m *model) fail() {
	if m.rng.IntN(2) == 0 {
		m.append()
	}
	n := m.end.Number()
	keep := len(m.frames)
	for keep > 0 && m.frames[keep-1].at >= m.synced && m.frames[keep-1].at.Number() == n && m.rng.IntN(2) == 0 {
		keep--
	}
	for _, f := range m.frames[keep:] {
		m.end = min(m.end, f.at)
		m.next[f.partition] = min(m.next[f.partition], f.base)
	}
	m.frames = m.frames[:keep]
	m.start(n + 1)
}

// writeBack has the kernel put some of what it holds on stable storage, and tell nobody.
func (m *model) writeBack() {
	for n, data := range m.files {
		for off := 0; off < len(data); off += 512 {
			if m.rng.IntN(3) > 0 {
				copy(m.disk[n][off:off+512], data[off:])
			}
		}
	}
}

// drop trims all, and drops what segments that frees, durably.
func (m *model) drop() {
	m.sync()
	copy(m.trim, m.next)
	for ; m.oldest < m.end.Number(); m.oldest++ {
		delete(m.files, m.oldest)
	}
}

func (m *model) append() {
	length := segment.FrameHeader + 40 + m.rng.IntN(900)
	if m.end.Off()+int64(length) > planRoom-segment.Block {
		if !m.lazy && m.rng.IntN(2) == 0 {
			m.sync() // as at level sync
		}
		m.start(m.end.Number() + 1)
	}
	b := make([]byte, length)
	for i := range b {
		b[i] = byte(m.rng.Uint32())
	}
	p := m.rng.IntN(2)
	f := segment.Frame{Prev: m.chain, Kind: segment.Records, Partition: p, Count: 1 + m.rng.IntN(4), Base: m.next[p], Synced: m.synced}
	n, off := m.end.Number(), m.end.Off()
	m.chain = segment.SealFrame(b, &f, m.heads[n].Epoch(), off)
	copy(m.files[n][off:], b)
	m.next[p] = f.Next()
	m.frames = append(m.frames, writtenFrame{at: m.end, length: int64(length), partition: p, base: f.Base, count: f.Count})
	m.end += segment.Pos(f.Size())
}

func (m *model) sync() {
	m.synced = m.end
	m.hints = append(m.hints, m.end)
	for i := range m.frames {
		m.frames[i].synced = true
	}
	for n, data := range m.files {
		m.disk[n] = slices.Clone(data)
	}
}

// crash is a loss of power: of what was written since a sync the disk has some sectors, of others it has
// what was there before.
func (m *model) crash() {
	for n, data := range m.files {
		lose := m.rng.IntN(3) // nothing, some, all
		for off := 0; off < len(data); off += 512 {
			if lose == 2 || lose == 1 && m.rng.IntN(3) == 0 {
				copy(data[off:off+512], m.disk[n][off:])
			}
		}
	}
}

// damage rots a byte, or takes a whole file.
func (m *model) damage() {
	n := 1 + m.rng.Uint64N(m.end.Number())
	data := m.files[n]
	if data == nil || m.heads[n] == nil {
		return
	}
	used := planRoom - int64(segment.Block)
	if n == m.end.Number() {
		used = m.end.Off()
	}
	from, to := int64(0), int64(planRoom)
	switch m.rng.IntN(6) {
	case 0:
		delete(m.files, n)
	case 1:
		clear(data)
	case 2: // another topic's
		h := *m.heads[n]
		h.TopicID++
		b := segment.AppendHeader(nil, &h)
		copy(data, b)
		copy(data[len(data)-len(b):], b)
	default:
		from = int64(segment.Block) + m.rng.Int64N(max(used-segment.Block, 1))
		data[from] ^= 1 << m.rng.IntN(8)
		to = from + 1
	}
	if from < segment.Block {
		m.hurt = append(m.hurt, segment.At(n, 0))
	}
	for _, f := range m.frames {
		if f.synced && f.at.Number() == n && f.at.Off() < to && f.at.Off()+f.length > from {
			m.hurt = append(m.hurt, f.at)
		}
	}
}

func (m *model) header(n uint64) (*segment.Header, error) {
	data := m.files[n]
	h, err := segment.ParseHeader(data[:segment.Block])
	if err != nil {
		h, err = segment.FindCopy(data[len(data)-segment.Block:])
	}
	if err == nil && (h.TopicID != planTopic || h.Number != n) {
		err = fault.NotFound
	}
	return h, err
}

// evidence is what gather would read.
func (m *model) evidence(hint segment.Pos) *evidence {
	ev := &evidence{partitions: len(m.next), numbers: slices.Sorted(maps.Keys(m.files)), found: map[uint64]*found{}, trim: m.trim}
	ev.oldest, ev.hint = m.oldest, max(hint, begun(m.oldest))
	ev.from, _ = walkFrom(ev.numbers, hint, m.header)
	for _, n := range slices.Backward(ev.numbers) {
		if n < ev.from {
			break
		}
		h, err := m.header(n)
		if err != nil {
			ev.found[n] = examineBare(planTopic, n, m.files[n], len(m.next), err.Error())
			continue
		}
		end, closed := h.Limit(planRoom), false
		if after := ev.closing(n); after != nil {
			end, closed = min(end, after.PrevEnd), true
		}
		ev.found[n], _ = examine(h, m.files[n], end, closed, hint)
	}
	return ev
}

func (p *plan) names(at segment.Pos) bool {
	return slices.ContainsFunc(p.damage, func(d placed) bool {
		return d.number == at.Number() && (d.From == 0 || d.From <= at.Off() && at.Off() < d.To)
	})
}

// check is what a plan must keep. Damage that hits what nothing on the disk tells to have been
// promised is no different from a write that power cut off; then only what is in front counts.
func (m *model) check(ev *evidence, p *plan) error {
	limit := m.limit(p.synced)
	for _, f := range m.frames {
		if !f.synced || f.at >= limit || f.at.Number() < m.oldest {
			continue
		}
		if p.next[f.partition] < f.base+int64(f.count) {
			return fmt.Errorf("partition %d goes on at %d; %d and on were acknowledged at %v", f.partition, p.next[f.partition], f.base, f.at)
		}
		hurt := slices.Contains(m.hurt, f.at)
		switch {
		case f.at >= p.cut && !hurt, slices.Contains(p.remove, f.at.Number()):
			return fmt.Errorf("the acknowledged frame at %v is cut at %v", f.at, p.cut)
		case !hurt && p.names(f.at):
			return fmt.Errorf("the sound frame at %v is called damaged: %+v", f.at, p.damage)
		case hurt && f.at.Number() >= ev.from && f.at >= ev.hint && !ev.endless(f.at) && !p.names(f.at):
			return fmt.Errorf("the damage of the frame at %v is not named: %+v", f.at, p.damage)
		}
	}
	return m.ghosts(p)
}

// limit is the first place at or behind what is known to have been promised where damage hit.
func (m *model) limit(known segment.Pos) segment.Pos {
	limit := segment.Pos(1 << 62)
	for _, at := range m.hurt {
		if at >= known {
			limit = min(limit, at)
		}
	}
	return limit
}

// undamaged is what a plan must keep besides when nothing was damaged: it tells of no damage, the log
// that it leaves has no hole, nothing that was acknowledged is missing in it, and it goes on where it
// ends. When the power stayed on, all that was written was acknowledged by somebody.
func (m *model) undamaged(p *plan, power bool) error {
	if len(p.damage) > 0 {
		return fmt.Errorf("nothing was damaged, and it tells of %+v", p.damage)
	}
	m.carryOut(p, false)
	there, next, err := m.read(p)
	if err != nil {
		return err
	}
	for _, f := range m.frames {
		if (f.synced || power) && f.at.Number() >= m.oldest && !there[f.at] {
			return fmt.Errorf("the frame at %v (synced %v, power stayed on %v) is not in the log, which is cut at %v", f.at, f.synced, power, p.cut)
		}
	}
	for i := range next {
		next[i] = max(next[i], m.trim[i])
	}
	if !slices.Equal(p.next, next) {
		return fmt.Errorf("the log goes on at %v behind the cut at %v; the frames in front of it end at %v", p.next, p.cut, next)
	}
	return nil
}

// read reads what a plan leaves, as readers do: each segment up to where the header of the next one
// says that it ends.
func (m *model) read(p *plan) (map[segment.Pos]bool, []int64, error) {
	there, next := map[segment.Pos]bool{}, []int64(nil)
	for n := m.oldest; n <= p.cut.Number(); n++ {
		h, err := m.header(n)
		if err != nil {
			return nil, nil, fmt.Errorf("segment %d, and the log goes on behind it up to %v: %w", n, p.cut, err)
		}
		if next != nil && !slices.Equal(next, h.Bases) {
			return nil, nil, fmt.Errorf("segment %d goes on at %v, the frames in front of it end at %v", n, h.Bases, next)
		}
		next = slices.Clone(h.Bases)
		end := p.cut.Off()
		if n < p.cut.Number() {
			after, err := m.header(n + 1)
			if err != nil {
				return nil, nil, fmt.Errorf("segment %d, and the log goes on behind it up to %v: %w", n+1, p.cut, err)
			}
			end = after.PrevEnd
		}
		walk := segment.Walker{Data: m.files[n], Epoch: h.Epoch(), Off: h.Length, Chain: h.CRC, Full: true}
		for walk.Off < end {
			var f segment.Frame
			off, bad, err := walk.Next(end, &f)
			switch {
			case err != nil || bad != nil:
				return nil, nil, fmt.Errorf("segment %d at byte %d, before the cut at %v: %v %w", n, off, p.cut, bad, err)
			case f.Base != next[f.Partition]:
				return nil, nil, fmt.Errorf("segment %d at byte %d: partition %d goes on at %d behind %d", n, off, f.Partition, f.Base, next[f.Partition])
			}
			next[f.Partition] = f.Next()
			there[segment.At(n, off)] = true
		}
	}
	return there, next, nil
}

// endless tells whether nothing is left that says how far a segment went: the next one is lost.
func (ev *evidence) endless(at segment.Pos) bool {
	f := ev.found[at.Number()]
	return f != nil && f.header != nil && !f.closed && at.Off() >= f.end
}

// ghosts looks for sound frames that nobody takes for a part of the log, and that could come back.
func (m *model) ghosts(p *plan) error {
	data := m.files[p.cut.Number()]
	if p.fresh || data == nil {
		return nil
	}
	from := max(p.cut.Off(), p.wipe)
	if at := segment.Find(data, segment.Epoch(planTopic, p.cut.Number()), from); at >= 0 {
		return fmt.Errorf("a frame at byte %d stands behind the cut at %v and the wipe up to %d", at, p.cut, p.wipe)
	}
	return nil
}

// copy is the model with files of its own.
func (m *model) copy() *model {
	c := *m
	c.files = map[uint64][]byte{}
	for n, data := range m.files {
		c.files[n] = slices.Clone(data)
	}
	return &c
}

// carryOut does some of the plan's steps, or all of them.
func (m *model) carryOut(p *plan, some bool) {
	for _, n := range slices.Backward(p.remove) {
		if some && m.rng.IntN(3) == 0 {
			return
		}
		delete(m.files, n)
	}
	data := m.files[p.cut.Number()]
	for off := p.cut.Off(); off < p.wipe; off++ {
		if !some || m.rng.IntN(2) == 0 {
			data[off] = 0
		}
	}
}

func planFor(seed uint64) error {
	m := newModel(seed)
	hint := segment.Pos(0)
	switch m.rng.IntN(3) {
	case 0:
		hint = m.hints[m.rng.IntN(len(m.hints))]
	case 1:
		hint = m.synced
	}
	power := m.rng.IntN(4) == 0 // it stays on
	if !power {
		m.crash()
	}
	damages := m.rng.IntN(3)
	for range damages {
		m.damage()
	}
	ev := m.evidence(hint)
	p, ok := decide(ev)
	switch {
	case !ok && damages == 0:
		return errors.New("nothing was damaged, and no segment is left")
	case !ok:
		return nil // no header is left
	}
	if err := m.check(ev, p); err != nil {
		return err
	}
	if damages == 0 {
		whole := m.copy()
		if err := whole.undamaged(p, power); err != nil {
			return err
		}
	}
	m.carryOut(p, true)
	again, ok := decide(m.evidence(max(hint, p.synced)))
	limit := m.limit(p.synced)
	switch {
	case !ok || again.cut > p.cut && again.cut > p.synced:
		return fmt.Errorf("cut at %v, and after a crash in between at %v (%v)", p.cut, again.cut, ok)
	case slices.ContainsFunc(m.frames, func(f writtenFrame) bool {
		return f.synced && f.at < min(p.cut, limit) && f.at >= again.cut && !slices.Contains(m.hurt, f.at)
	}):
		return fmt.Errorf("cut at %v, and after a crash in between at %v, below acknowledged frames", p.cut, again.cut)
	}
	for i, next := range again.next {
		if next < p.next[i] && len(p.remove) == 0 && slices.ContainsFunc(m.frames, func(f writtenFrame) bool {
			return f.synced && f.partition == i && f.base >= next && f.at < min(p.cut, limit)
		}) {
			return fmt.Errorf("partition %d went on at %d, and after a crash in between at %d", i, p.next[i], next)
		}
	}
	return nil
}

// Thousands of logs, with crashes and damage of all kinds.
func TestAPlanKeepsWhatWasPromised(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4000) {
		if err := planFor(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func FuzzPlan(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		if err := planFor(seed); err != nil {
			t.Error(err)
		}
	})
}
