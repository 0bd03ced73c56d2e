package sim

import (
	"slices"

	"github.com/ringfence/ringfence/remote/core"
)

func (cs *csess) empty() bool {
	p := &cs.post
	return !cs.beat && len(p.Done)+len(p.Failed)+len(p.Released) == 0 && p.Commit == 0
}

// posted is what became of a POST, the first time and each other time.
type posted struct {
	refused []core.Refusal
	sent    int64 // the newest line then
	done    bool
}

// poke sends what has gathered, one request at a time; one without a reply is repeated as it is.
func (cs *csess) poke() {
	c, w := cs.c, cs.c.w
	if cs.sending || cs.sid == "" || cs.empty() || cs.over {
		return
	}
	cs.sending = true
	var body core.Post
	var first posted
	var send func()
	again := false
	send = func() {
		if cs.over {
			return
		}
		w.request(cs.p, cs.sid, c.ttl/4, func(_ *daemon, s *sess, reply func(any)) {
			var refused []core.Refusal
			var err error
			life := s.core.Life()
			lost := s.pool.do(func(*core.Pool) { refused, err = s.core.Answers(w.time(), &body) })
			if err != nil {
				w.wrong("client %d posts %+v: %v", c.n, body, err)
			}
			for _, r := range lost {
				refused = append(refused, core.Refusal{N: r.Line(), Why: core.Fenced})
			}
			named := slices.DeleteFunc(slices.Clone(refused), func(r core.Refusal) bool { return cs.got[r.N] == committed })
			slices.SortFunc(named, func(a, b core.Refusal) int { return int(a.N - b.N) })
			switch {
			case !first.done:
				first = posted{named, s.core.Sent(), true}
			case s.core.Life() != life:
				w.wrong("a repeated POST of client %d moved the deadline", c.n)
			case !slices.Equal(named, first.refused) && s.core.Sent() < first.sent+int64(c.window):
				w.wrong("a repeated POST of client %d got the reply %v, the first one %v", c.n, named, first.refused)
			}
			reply(refused)
		}, func(v any, status int) {
			switch status {
			case ok:
				for _, r := range v.([]core.Refusal) { //nolint:forcetypeassert // see above
					if r.Why == core.Unknown && !c.cron {
						w.wrong("client %d answered n=%d (again: %v) and was told %s", c.n, r.N, again, r.Why)
					}
				}
				cs.sending = false
				cs.place(body.Seen, body.Commit)
				cs.poke()
			case over:
				cs.end()
			default:
				again = true
				w.at(cs.p, 100, send)
			}
		})
	}
	w.at(cs.p, 2, func() { // answers gather meanwhile
		body = cs.post
		body.Seen = cs.seen
		cs.post, cs.beat = core.Post{}, false
		send()
	})
}

// place moves the place in the file: all records up to there have their answer.
func (cs *csess) place(seen, commit int64) {
	if !cs.empty() {
		return
	}
	low := seen
	for n, st := range cs.got {
		if st == inHand || st == committed && n > commit {
			low = min(low, n-1)
		}
	}
	cs.stored = max(cs.stored, low)
}
