package sim

// The outcomes of a request.
const (
	noReply = iota
	ok
	over
)

// request goes to the daemon of a session, or to any for a new one. It may be lost on both ways, late, and repeated.
func (w *world) request(p *proc, sid string, patience int64, exec func(*daemon, *sess, func(any)), reply func(any, int)) {
	told := false
	back := func(v any, status int) {
		if w.faulty && w.chance(w.lossP) {
			return
		}
		w.at(p, w.delay(), func() {
			if !told {
				told = true
				reply(v, status)
			}
		})
	}
	w.at(p, patience, func() {
		if !told {
			told = true
			reply(nil, noReply)
		}
	})
	var to *daemon
	var s *sess
	for _, d := range w.daemons {
		for _, x := range d.sessions {
			if sid != "" && x.id == sid {
				to, s = d, x
			}
		}
	}
	if sid == "" {
		to = w.daemons[w.r.IntN(len(w.daemons))]
	}
	arrive := func() {
		if sid != "" && (s == nil || s.core.Over() != "") {
			back(nil, over)
			return
		}
		exec(to, s, func(v any) { back(v, ok) })
	}
	var at *proc
	switch {
	case to != nil && !to.dead && (sid != "" || to.drainBy == 0):
		at = &to.proc
	case sid == "":
		return
	default:
		s = nil
	}
	for n := 1 + b2i(w.faulty && w.chance(w.dupP)); n > 0; n-- {
		if !w.faulty || !w.chance(w.lossP) {
			w.at(at, w.delay(), arrive)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
