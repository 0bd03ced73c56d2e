package fileregistry

import (
	"time"
)

// A session's end is announced in its heartbeat word first and written to the journal after that;
// the process that does the two may die in between, or may fail to write. So no process keeps a list of
// what is still to be done: each round of every process compares the words, the table of the journal
// and what this process itself holds, and whatever disagrees is ended by the process that sees it.
//
//	table   word                     holder      it is
//	has it  of another session       any         over: its end was written into the word, and the slot given away
//	has it  dead                     any         over: its end was announced
//	has it  stands still for its TTL another     over, and declared now
//	has it  alive                    this, but no process has it: over, its opening was given up
//	has not whatever                 this        over: its end was written
//
// A word that another process has just declared is left to it for one round: it is writing the end.
const (
	beatsPerTTL = 4
	minBeat     = 20 * time.Millisecond
	slowLook    = time.Second // how often a process that only watches looks by itself
)

// sighting is since when a heartbeat word has been the same, by this process's monotonic clock.
type sighting struct {
	word  uint64
	since time.Time
	over  bool // it was announced
}

// round renews, looks at the others, and says when the next one is due; 0: when something changes.
func (k *sessionKeeper) round() time.Duration {
	if k.s.gate.Pass(k.ctx) != nil {
		return minBeat
	}
	table := *k.s.core.sessions.Load()
	var shortest time.Duration
	for _, info := range table {
		if ttl := time.Duration(info.ttl); shortest == 0 || ttl < shortest {
			shortest = ttl
		}
	}
	over := append(k.mine(table), k.others(table, shortest)...)
	k.end(over)
	k.tidy(table)
	k.watched.Set(k.ctx, k.ring(table))
	k.s.poke() // the core looks whether a writer died before it could ring, and whether the directory is there
	every := max(shortest/beatsPerTTL, minBeat)
	switch waits := k.s.core.watches.Len() > 0; {
	case shortest > 0 && waits:
		return min(every, slowLook)
	case shortest > 0:
		return every
	case waits:
		return slowLook
	}
	return 0
}

// mine renews this process's sessions and finds those that are over.
func (k *sessionKeeper) mine(table []sessionInfo) (over []string) {
	k.mu.Lock()
	own := make([]*session, 0, len(k.own))
	held := make(map[string]bool, len(k.own)+len(k.opened))
	for id, x := range k.own {
		own, held[id] = append(own, x), true
	}
	for id := range k.opened {
		held[id] = true
	}
	k.mu.Unlock()
	for _, info := range table { // older than held: what is in it and not in held is of no process
		if info.handle == k.s.handle && !held[info.id] {
			declareDead(k.s.ctl.slot(info.slot), info.tag)
			over = append(over, info.id)
		}
	}
	alive := make(map[string]bool)
	for _, info := range *k.s.core.sessions.Load() { // newer than own: what is in own and not in it was ended
		alive[info.id] = true
	}
	expired := 0
	for _, x := range own {
		if !alive[x.info.id] || !x.renew() {
			x.end()
			over = append(over, x.info.id)
			expired++
		}
	}
	if expired > 0 {
		k.s.log.Warn("sessions of this process expired: it did not run for their TTL", "sessions", expired)
	}
	return over
}

// others finds the sessions of other processes that are over.
func (k *sessionKeeper) others(table []sessionInfo, shortest time.Duration) (over []string) {
	now := time.Now()
	late := now.Sub(k.last) > shortest/2+minBeat // this process itself did not run: it can't judge
	k.last = now
	next := make(map[string]sighting, len(table))
	for _, info := range table {
		if info.handle == k.s.handle {
			continue
		}
		slot := k.s.ctl.slot(info.slot)
		w := slot.Load()
		was, known := k.seen[info.id]
		is := sighting{word: w, since: now, over: !tagged(w, info.tag) || w&dead != 0}
		if known && !late && was.word == w {
			is.since = was.since
		}
		switch {
		case is.over && was.over:
			over = append(over, info.id)
		case !is.over && now.Sub(is.since) >= time.Duration(info.ttl) && slot.CompareAndSwap(w, w|dead):
			is.over = true
			over = append(over, info.id)
		}
		next[info.id] = is
	}
	k.seen = next
	return over
}

// end writes the end of sessions, without keeping the keeper from its rounds. One request is under
// way at a time: what is not in it, and what fails, a later round sees again.
func (k *sessionKeeper) end(ids []string) {
	if len(ids) == 0 || k.ending || time.Now().Before(k.notBefore) {
		return
	}
	k.ending = true
	k.wg.Go(func() { // joined by stop
		_, _, err := k.s.call(k.ctx, endOf(ids))
		select {
		case k.written <- err:
		case <-k.quit:
		}
	})
}

// ended takes the outcome of the request under way.
func (k *sessionKeeper) ended(err error) {
	if err != nil {
		k.notBefore = time.Now().Add(minBeat)
		if !k.failed && k.ctx.Err() == nil {
			k.s.log.Warn("the end of sessions can't be written yet", "error", err)
		}
	}
	k.ending, k.failed = false, err != nil
}

// lose ends this process's sessions: the directory that they are in is gone.
func (k *sessionKeeper) lose() {
	k.mu.Lock()
	own := make([]*session, 0, len(k.own))
	for _, x := range k.own {
		own = append(own, x)
	}
	k.mu.Unlock()
	k.s.log.Error("the registry is gone", "error", k.s.core.dir.lost)
	for _, x := range own {
		x.end()
	}
}
