package history

// none is no offset.
const none = -1

// keyID is one key in its partition.
type keyID struct {
	place
	key string
}

// run is how far one owner got with one key.
type run struct {
	epoch int64
	open  Event // the record that its handler has; Kind "" when none
	retry int64 // a record that failed: nothing else may come before it succeeds
	last  int64 // the highest that it finished
	since int   // its tenure's number of rejoins when it started the last one
}

// keyState is what is known of one key; a replaced owner may be at work beside its successor, so each has a run.
type keyState struct {
	now, before   run
	resets        int // of the unit when this was noted
	highStarted   int64
	highFinished  int64
	startedEvents Event // of highStarted
}

func newKeyState(epoch int64, resets int) *keyState {
	return &keyState{now: newRun(epoch), before: newRun(0), resets: resets, highStarted: none, highFinished: none}
}

func newRun(epoch int64) run { return run{epoch: epoch, retry: none, last: none} }

// idle says that forgetting the key loses nothing, as its records are below the checkpoint.
func (s *keyState) idle(frontier int64) bool {
	return s.now.open.Kind == "" && s.before.open.Kind == "" && s.now.retry == none && s.highStarted < frontier
}

// run returns the run of an epoch; nil for one older than the last two.
func (s *keyState) run(epoch int64) *run {
	switch {
	case epoch > s.now.epoch:
		s.before, s.now = s.now, newRun(epoch)
		return &s.now
	case epoch == s.now.epoch:
		return &s.now
	case epoch == s.before.epoch:
		return &s.before
	}
	return nil
}

// keyState finds the state of the event's key and the run of its epoch; nil when there is none.
func (c *Checker) keyState(e *Event, u *unit) (*keyState, *run) {
	if e.Key == "" {
		return nil, nil
	}
	id := keyID{e.place(), e.Key}
	s := c.keys[id]
	if s == nil || s.resets != u.resets {
		if e.Kind != Started {
			return nil, nil
		}
		c.sweep()
		s = newKeyState(e.Epoch, u.resets)
		c.keys[id] = s
	}
	r := s.run(e.Epoch)
	return s, r
}

// sweep forgets idle keys whenever their number has doubled.
func (c *Checker) sweep() {
	if len(c.keys) < c.sweepAt {
		return
	}
	for id, s := range c.keys {
		if s.idle(c.partition(id.place).frontier) {
			delete(c.keys, id)
		}
	}
	c.sweepAt = max(minKeys, 2*len(c.keys))
}

const minKeys = 1 << 16

// startKey checks the order of a key at a start. first: the record was never started before; fresh: never finished.
func (c *Checker) startKey(e *Event, u *unit, t *tenure, first, fresh bool) {
	s, r := c.keyState(e, u)
	if r == nil {
		return
	}
	if r.since != t.rejoined { // it begins at the checkpoint again
		r.since, r.last = t.rejoined, none
	}
	switch {
	case r.open.Kind != "":
		c.report.violate(KeyOrder, []Event{r.open, *e}, "two records of key %q were in flight at once", e.Key)
	case r.retry != none && e.Offset != r.retry:
		c.report.violate(KeyOrder, []Event{*e}, "key %q went on to %d before the failed record %d succeeded", e.Key, e.Offset, r.retry)
	case e.Offset <= r.last:
		c.report.violate(KeyOrder, []Event{*e}, "key %q went back to %d after the same owner had finished %d", e.Key, e.Offset, r.last)
	case first && e.Offset < s.highStarted:
		c.report.violate(KeyOrder, []Event{s.startedEvents, *e}, "key %q: %d was started first after %d", e.Key, e.Offset, s.highStarted)
	case fresh && e.Offset < s.highFinished:
		c.report.violate(KeyOrder, []Event{*e}, "key %q: %d was still unfinished when %d was finished", e.Key, e.Offset, s.highFinished)
	}
	r.open, r.retry = *e, none
	if e.Offset > s.highStarted {
		s.highStarted, s.startedEvents = e.Offset, *e
	}
}

// endKey notes that a handler of the key returned.
func (c *Checker) endKey(e *Event, u *unit) {
	s, r := c.keyState(e, u)
	if r == nil {
		return
	}
	if r.open.Offset == e.Offset {
		r.open = Event{}
	}
	if e.Kind == Failed {
		r.retry = e.Offset
		return
	}
	r.last = max(r.last, e.Offset)
	s.highFinished = max(s.highFinished, e.Offset)
}
