package core

import "slices"

// The fold over the journal, and the right to write to it. State keeps three kinds of things apart: what the
// records that count have said, which is the same for every reader; what this start has asked for and not
// read back yet (queue, flight); and the effects for the shell to carry out. One batch is on its way at a
// time: so a start never has two appends in the log whose order it does not know.

// Config configures a shard.
type Config struct {
	Set    string
	Tenure Tenure // of this start; zero: a reader, which writes nothing
	Member string
	From   int64 // where the journal is read from: that of the stored checkpoint
	Now    int64 // Unix milliseconds; see State.Clock

	MaxPause    int64       // bounds the milliseconds before an attempt; 0: no bound
	DeadLetters DeadLetters // zero: Block
	Batch       int         // records appended at once; default 256
	Tidy        int64       // a journal that is shorter stays as it is; default 1024
	Heir        bool        // it takes over from parents before it delivers: State.Adopt, State.Open
}

// DeadLetters is what becomes of a record that is given up.
type DeadLetters string

// The policies.
const (
	Block DeadLetters = "block" // a dead letter; its key waits until an operator decides
	Skip  DeadLetters = "skip"  // a dead letter; its key goes on
	Drop  DeadLetters = "drop"  // it is finished, and gone
)

type phase uint8

const (
	fresh    phase = iota
	fencing        // reads what is there, up to its own fence
	adopting       // takes over what its parents have left
	live
	over // another start has a higher fence, or the journal has ended
)

// State is one shard.
type State struct {
	cfg   Config
	phase phase

	// The fold over the journal.
	level   Tenure // of the last fence that counts
	seq     uint64 // the highest of it that counts
	end     int64  // all below was read
	fences  []int64
	ended   bool // and where:
	ending  Ending
	keys    map[string]*keyState
	items   map[Origin]*item
	orders  map[Origin]*order // of dead letters and parked records, that are not carried out yet
	took    taken             // by the last order
	answers map[string]string // see shared
	placed  []placed          // what keeps the journal's beginning, in order of place
	tidyTo  int64             // what lies below is being appended once more; see Tidy
	passed  map[[2]int]int64  // the lowest unfinished offset by storage and partition, as From was told

	// What is under way.
	paused  bool
	heads   dueHeap
	direct  map[Origin]*keyState // of the main records that dispatch is running, of keys with parked records
	name    []byte               // room for that of a key state
	next    uint64               // sequence of the next record
	queue   []entry
	pulls   []pull  // still to be taken over
	copying int     // dead letters whose copies, and bequests whose notes, are on their way
	flight  []entry // a batch not read back yet
	effects []Effect

	// Of an heir.
	bequests []bequest // still to be noted
	retries  []*Record // orders to retry what is yet to be taken over
}

// entry is a record on its way into the journal.
type entry struct {
	Entry
	state *keyState
	item  *item
	main  bool // it finishes a main record
}

// New makes a shard that knows nothing yet.
func New(c Config) *State {
	if c.Batch == 0 {
		c.Batch = 256
	}
	if c.Tidy == 0 {
		c.Tidy = 1024
	}
	if c.DeadLetters == "" {
		c.DeadLetters = Block
	}
	return &State{cfg: c, end: c.From, keys: map[string]*keyState{}, items: map[Origin]*item{}, orders: map[Origin]*order{}, answers: map[string]string{}, direct: map[Origin]*keyState{}, passed: map[[2]int]int64{}}
}

// Effects takes the effects to carry out, in that order.
func (s *State) Effects() []Effect {
	out := s.effects
	s.effects = nil
	return out
}

func (s *State) emit(e Effect) { s.effects = append(s.effects, e) }

// Start appends the fence. Then the journal is read, from Config.From on.
func (s *State) Start() {
	s.phase = fencing
	s.push(entry{Entry: Entry{Record: Record{Kind: Fence, Member: s.cfg.Member}}})
}

// Refence repeats the fence, so that From finds one to move on to.
func (s *State) Refence() {
	if s.phase == live {
		s.push(entry{Entry: Entry{Record: Record{Kind: Fence, Member: s.cfg.Member}}})
	}
}

// Empty reports that every main record may be delivered at once.
func (s *State) Empty() bool { return s.phase == live && len(s.keys) == 0 }

// Drained reports that nothing that was begun waits for the journal.
func (s *State) Drained() bool { return len(s.queue)+len(s.flight)+s.copying == 0 }

// Clock sets the time before what is read: a pause counts from then at the latest.
func (s *State) Clock(now int64) { s.cfg.Now = now }

// SetBack says that the clock of Clock and Due was set back by so many milliseconds: pauses that have begun are
// shortened by that. A record that waits for a time of that clock finds out when it is handed out.
func (s *State) SetBack(by int64) {
	s.cfg.Now -= by
	for _, it := range s.items {
		it.due = sooner(it.due, by)
	}
	for _, l := range s.heads {
		l.due = sooner(l.due, by) // all of them: their order stays
	}
}

// sooner makes a time earlier by so many milliseconds. 0 stays 0, no time: such a record waits for its turn
// only.
func sooner(due, by int64) int64 { return min(due, max(0, due-by)) }

// SetPaused sets whether no parked record may be delivered.
func (s *State) SetPaused(paused bool) { s.paused = paused }

// SetPolicy changes what becomes of a record that is given up from then on, and the longest pause.
func (s *State) SetPolicy(d DeadLetters, maxPause int64) {
	s.cfg.DeadLetters, s.cfg.MaxPause = d, maxPause
}

// End is where the journal is to be read on.
func (s *State) End() int64 { return s.end }

// push sends an entry after all earlier ones.
func (s *State) push(e entry) {
	if s.phase == over {
		return
	}
	e.Set, e.By, e.Seq = s.cfg.Set, s.cfg.Tenure, s.next+1
	s.next++
	s.queue = append(s.queue, e)
	s.flush()
}

// flush begins the next batch when there is none.
func (s *State) flush() {
	k := min(len(s.queue), s.cfg.Batch)
	if len(s.flight) > 0 || k == 0 || s.phase == over {
		return
	}
	s.flight = slices.Clone(s.queue[:k])
	s.queue = slices.Delete(s.queue, 0, k)
	batch := make([]Entry, k)
	for i, e := range s.flight {
		batch[i] = e.Entry
	}
	s.emit(Append{batch})
}

// Read takes the next record of the journal, as it lies at place, for an owner's tail and an heir's rebuild.
func (s *State) Read(place int64, r *Record) {
	if s.phase == over {
		return
	}
	s.end = place + 1
	if s.ended {
		return
	}
	switch own := r.By == s.cfg.Tenure; {
	case r.Kind == Order:
		s.took = taken{place, s.take(place, r)}
	case r.Kind == Fence && r.By.above(s.level):
		s.level, s.seq = r.By, r.Seq
		s.fences = append(s.fences, place)
		if !own && s.phase != fresh && r.By.above(s.cfg.Tenure) {
			s.stop(r.By)
			return
		}
		if own {
			s.landed(r.Seq)
			s.begin()
		}
	case r.Kind == Fence && own && s.phase == fencing:
		s.stop(s.level) // one as high was there before
	case r.By == s.level && r.Seq > s.seq:
		s.seq = r.Seq
		s.count(place, r)
		if own {
			s.landed(r.Seq)
		}
	}
}

// Passed notes that the journal was read up to next: there may be no record right below it.
func (s *State) Passed(next int64) { s.end = max(s.end, next) }

func (s *State) stop(seen Tenure) {
	s.phase, s.effects, s.queue, s.flight, s.heads = over, nil, nil, nil, nil
	s.emit(Behind{seen})
}

// begin starts the work once all that counted before the fence is known, and an heir has taken over.
func (s *State) begin() {
	if s.cfg.Heir {
		if s.phase == fencing {
			s.phase = adopting
			s.emit(Started{})
		}
		return
	}
	s.emit(Started{})
	s.work()
}

func (s *State) work() {
	s.phase = live
	for _, it := range s.sorted() {
		s.refresh(it.state)
	}
	s.retries = nil
	s.resume()
}

// count applies a record that counts.
func (s *State) count(place int64, r *Record) {
	switch it := s.items[r.ID.Origin]; r.Kind {
	case Fence:
		s.fences = append(s.fences, place)
	case Park, Dead:
		s.keep(place, r)
	case Known:
		s.mark(place, r)
	case Close:
		s.endAt(place, r)
	case Ends:
		s.cut(r.ID.Origin)
	case Try:
		if n := made(r); it != nil && it.id() == r.ID && !it.dead && n >= it.attempts {
			it.attempts, it.due, it.since, it.answer = n, s.clamp(r), r.Since, s.shared(r.Answer)
			s.refresh(it.state)
		}
	case Done:
		if it != nil && it.id() == r.ID {
			delete(s.items, it.Origin)
			delete(s.orders, it.Origin)
			it.state.remove(it)
			s.refresh(it.state)
		}
	}
}

// mark raises the key state of r.
func (s *State) mark(place int64, r *Record) *keyState {
	l := s.state(r.Key, r.ID.Origin)
	if it := s.items[r.ID.Origin]; it == nil || !it.torn {
		l.raise(r.ID.Origin, place)
	}
	s.placed = append(s.placed, placed{place, l, r.ID.Origin})
	return l
}

func (s *State) state(key []byte, o Origin) *keyState {
	l := s.find(key, o)
	if l == nil {
		l = newKeyState(string(s.name)) // a copy: key may be a part of what was read
		s.keys[l.name] = l
	}
	return l
}

// find returns the key state of a record; nil: its key is unknown. Its name stands in s.name then.
func (s *State) find(key []byte, o Origin) *keyState {
	s.name = appendLane(s.name[:0], key, o)
	return s.keys[string(s.name)]
}

// manyAnswers is so large that most repeated ones are still known.
const manyAnswers = 256

// shared returns an answer from the one place in memory that equal ones share: a million records may
// have failed with it.
func (s *State) shared(answer string) string {
	if a, ok := s.answers[answer]; ok {
		return a
	}
	if len(s.answers) == manyAnswers {
		clear(s.answers)
	}
	s.answers[answer] = answer
	return answer
}

// keep takes in a Park or a Dead: a new record, its next round, its outcome, or a later copy of it,
// by which the journal can be cut off in front of that.
func (s *State) keep(place int64, r *Record) {
	l := s.mark(place, r)
	it := s.items[r.ID.Origin]
	switch {
	case it == nil:
		it = &item{Origin: r.ID.Origin, state: l}
		s.items[r.ID.Origin] = it
	case int(it.round) > r.ID.Round || it.id() == r.ID && it.dead && r.Kind == Park:
		return // its outcome since then lies in front
	case it.id() == r.ID && it.order != 0:
		return // a copy that was on its way when the order came: an heir that reads from there would not know of that
	default:
		if int(it.round) < r.ID.Round {
			it.attempts, it.order = 0, 0
			delete(s.orders, it.Origin)
		}
		l.remove(it)
	}
	it.round, it.place, it.dead, it.timestamp = int32(r.ID.Round), place, r.Kind == Dead, r.Timestamp
	it.attempts, it.since, it.due, it.answer = max(it.attempts, made(r)), r.Since, s.clamp(r), s.shared(r.Answer)
	it.blocking, it.copy, it.reason = r.Blocking, r.Copy, r.Reason
	if it.dead && !it.blocking {
		l.aside++
	} else {
		l.insert(it)
	}
	s.refresh(l)
}

// clamp returns when r is due, by our clock. A writer's clock that was ahead makes a record wait no
// longer than the pause that was written down, and that never longer than the policy knows.
func (s *State) clamp(r *Record) int64 {
	due := r.Due
	if s.cfg.MaxPause > 0 {
		due = min(due, s.cfg.Now+s.cfg.MaxPause)
	}
	return min(due, s.cfg.Now+max(0, r.Due-r.At))
}

// made is how many attempts were made at r, at most so many that another one can be counted. The policy does not
// bound it: that may change, and owner and heir have to count alike.
func made(r *Record) int32 { return int32(min(r.Attempts, MaxAttempts-1)) }

// landed finishes what was written with our records up to seq, which were read back.
func (s *State) landed(seq uint64) {
	for len(s.flight) > 0 && s.flight[0].Seq <= seq {
		e := s.flight[0]
		s.flight = s.flight[1:]
		if e.main {
			e.state.appending--
			s.emit(Settle{e.ID.Origin})
		}
		if e.item != nil {
			e.item.pending--
			e.item.release()
			s.obey(e.item)
		}
		if e.state != nil {
			s.refresh(e.state)
		}
	}
	s.flush()
	s.pullOn()
}
