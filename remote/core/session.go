package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// Config is what a session was opened with. All fields are set.
type Config struct {
	Window      int
	WindowBytes int64
	TTL         time.Duration
	Within      time.Duration // from the sending of a record to its answer; 0: no bound
	Paged       bool          // it is read in pages, not on a stream
}

// Session is a session of a client.
type Session struct {
	pool *Pool
	cfg  Config

	newest   int64             // number of the newest line
	sent     int64             // number of the newest line that a reader took
	seen     int64             // number of the newest line that was read
	lines    []Line            // not taken yet; of pages, also those that may be read again
	marks    []mark            // when lines above seen were sent
	out      map[int64]*Record // the window
	bytes    int64             // of out
	suspects int               // in out, at their last attempts, and not void
	memo     map[int64]How     // outcomes that are remembered
	order    []int64           // the keys of memo, the oldest first
	upTo     int64             // the highest commit
	refused  []int64           // of memo: answered by a commit, and fenced

	joined  bool
	leaving bool   // nothing is handed out any more
	reader  bool   // a stream is there, or a read waits
	read    uint64 // the number of the newest read of a page
	life    time.Duration
	beatAt  time.Duration
	ended   string
}

// The ends of a session. The last two are crashes.
const (
	ByClient  = "left"     // the client ended it
	ByDrain   = "draining" // the daemon ends
	ByFence   = "fenced"   // another start of the member
	ByDelete  = "deleted"  // of what it consumes
	ByTrouble = "failed"   // what it consumes can't be consumed
	ByCut     = "cut"      // its stream ended
	BySilence = "silent"   // nothing was heard for TTL
)

// Open begins a session. It takes part once it was heard.
func (p *Pool) Open(now time.Duration, cfg Config) *Session {
	s := &Session{pool: p, cfg: cfg, out: map[int64]*Record{}, memo: map[int64]How{}, life: now, beatAt: now}
	p.sessions = append(p.sessions, s)
	s.add(Line{Kind: Opened})
	return s
}

// Over says why the session is over; "": it is not.
func (s *Session) Over() string { return s.ended }

// Config is what the session was opened with.
func (s *Session) Config() Config { return s.cfg }

// Out returns how many places of the window are taken.
func (s *Session) Out() int { return len(s.out) }

func (s *Session) add(l Line) {
	if s.ended != "" {
		return
	}
	s.newest++
	l.N = s.newest
	s.lines = append(s.lines, l)
	s.wake()
}

func (s *Session) wake() { s.pool.effect(Effect{Kind: Wake, Session: s}) }

// Leave announces that the daemon ends the session at a time. No record follows; answers are taken until then.
func (s *Session) Leave(now, until time.Duration) {
	if s.ended != "" || s.leaving {
		return
	}
	s.leaving = true
	s.unsend(nil)
	s.add(Line{Kind: Goodbye, Why: ByDrain, Until: until})
	if !s.pool.workers {
		s.pool.unqueue(nil)
	}
	s.pool.pump(now)
}

// room reports whether a record may be handed out now. One that is larger than the window's bytes travels alone.
func (s *Session) room(r *Record) bool {
	return s.ended == "" && !s.leaving && s.joined && s.reader && len(s.out) < s.cfg.Window &&
		(len(s.out) == 0 || s.bytes+int64(r.Size) <= s.cfg.WindowBytes)
}

// hand gives a record out: this is when its number and token are given.
func (s *Session) hand(now time.Duration, r *Record) {
	r.Token, r.session, r.sentAt = s.pool.handOut(), s, now
	s.add(Line{Kind: Handed, Unit: r.Unit, Record: r})
	r.n = s.newest
	s.out[r.n] = r
	s.bytes += int64(r.Size)
	if r.Last && s.pool.workers {
		s.suspects++
	}
}

// void takes a record out of the session's hands. Its place stays taken until there is an answer.
func (s *Session) void(r *Record, o Outcome) {
	r.void = true
	if r.Last && s.pool.workers {
		s.suspects--
	}
	if o.How != 0 {
		s.pool.answer(r, o)
	}
}

// vacate makes room: r is out no more.
func (s *Session) vacate(r *Record) {
	if r.Last && !r.void && s.pool.workers {
		s.suspects--
	}
	delete(s.out, r.n)
	s.bytes -= int64(r.Size)
}

// free makes room, and remembers the answer.
func (s *Session) free(r *Record, how How) {
	s.vacate(r)
	s.memo[r.n] = how
	s.order = append(s.order, r.n)
	if len(s.order) > 2*s.cfg.Window {
		delete(s.memo, s.order[0])
		s.order = s.order[1:]
	}
}

// heard takes the sign of life: the number of the newest line that was read.
func (s *Session) heard(now time.Duration, n int64) error {
	if n < 0 || n > s.sent {
		return fmt.Errorf("line %d was never sent; expected the number of the newest line that was read, at most %d: %w", n, s.sent, fault.Invalid)
	}
	if n <= s.seen {
		return nil
	}
	s.seen = n
	k := 0
	for k < len(s.marks)-1 && s.marks[k].n < n {
		k++
	}
	s.life = max(s.life, s.marks[k].at)
	if s.marks[k].n == n {
		k++
	}
	s.marks = s.marks[k:]
	if !s.joined {
		s.joined = true
		s.pool.effect(Effect{Kind: Join, Session: s})
		s.pool.pump(now)
	}
	return nil
}

// sorted returns what is out, by number.
func (s *Session) sorted() []*Record {
	rs := make([]*Record, 0, len(s.out))
	for _, r := range s.out {
		rs = append(rs, r)
	}
	slices.SortFunc(rs, func(a, b *Record) int { return int(a.n - b.n) })
	return rs
}

// End ends the session, for one of the reasons above. What is out is released, or its attempt has failed: but a crash
// never uses up the last attempt of a record that was out in company, as another may be to blame.
func (s *Session) End(now time.Duration, why string) {
	if s.ended != "" {
		return
	}
	p := s.pool
	s.unsend(nil)
	s.add(Line{Kind: Goodbye, Why: why})
	s.ended, s.reader = why, false
	p.sessions = slices.DeleteFunc(p.sessions, func(o *Session) bool { return o == s })
	crash, company := why == ByCut || why == BySilence, len(s.out) > 1
	for _, r := range s.sorted() {
		switch {
		case r.void:
		case p.workers && crash && !(company && r.Last):
			p.answer(r, Outcome{How: Failed, Error: "the worker's session ended before there was an answer: " + why})
		default:
			p.answer(r, Outcome{How: Released})
		}
	}
	clear(s.out)
	s.bytes, s.suspects = 0, 0
	if !p.workers {
		p.unqueue(nil)
	}
	p.effect(Effect{Kind: Ended, Session: s})
	p.pump(now)
}

// tick does what is due.
func (s *Session) tick(now time.Duration) {
	if now-s.life > s.cfg.TTL {
		s.End(now, BySilence)
		return
	}
	if s.cfg.Within > 0 {
		var late []int64
		for _, r := range s.sorted() {
			if !r.void && now-r.sentAt > s.cfg.Within {
				s.void(r, Outcome{How: Failed, Error: fmt.Sprintf("no answer within %s", s.cfg.Within)})
				late = append(late, r.n)
			}
		}
		if late != nil {
			s.add(Line{Kind: Cancel, Records: late, Why: "no answer in time"})
		}
	}
	if !s.cfg.Paged && s.reader && now-s.beatAt >= min(s.cfg.TTL/3, 10*time.Second) {
		s.beatAt = now
		s.add(Line{Kind: Beat})
	}
}

// Life is from when the session's newest sign of life counts.
func (s *Session) Life() time.Duration { return s.life }

// Sent is the number of the newest line that a reader took.
func (s *Session) Sent() int64 { return s.sent }

// Heard reports whether there was a sign of life.
func (s *Session) Heard() bool { return s.joined }
