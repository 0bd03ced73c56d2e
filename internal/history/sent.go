package history

// Whether the log stored what it was given, once, where it said and in order, is judged by what producers tell before
// each append: a record is known by its value, which no other has, and by its number among those of its key.

// fate is what became of a record that was sent.
type fate struct {
	placed bool
	place
	offset int64
	denied bool
	told   bool // that it stands at a second place
}

// stream is how far the handlers got with a key, through all storage topics.
type stream struct {
	high int64 // the highest number that was started
	top  Event // that start
	open Event // the last that was started first and is not finished; Kind "" when none
	last Event // that with the highest token
}

// receive is the receiver that keeps the highest token of each key, and has to take what the owner delivers.
func (c *Checker) receive(e *Event, stale bool) {
	if e.Token == "" || e.Key == "" || c.undid {
		return
	}
	s := c.stream(e.Key)
	if !stale && e.Token <= s.last.Token {
		c.report.violate(TokenRises, []Event{s.last, *e}, "key %q: token %s came after %s", e.Key, e.Token, s.last.Token)
	}
	if e.Token > s.last.Token {
		s.last = *e
	}
}

func (c *Checker) stream(key string) *stream {
	s := c.streams[key]
	if s == nil {
		s = new(stream)
		c.streams[key] = s
	}
	return s
}

func (c *Checker) send(e *Event) {
	if c.sent == nil {
		c.sent = make(map[uint64]*fate)
	}
	if c.sent[e.Value] == nil {
		c.sent[e.Value] = new(fate)
		c.report.Sent++
	}
}

// denied notes that a record is nowhere.
func (c *Checker) denied(e *Event) {
	c.send(e)
	f := c.sent[e.Value]
	if f.placed {
		c.report.violate(DeniedIsAbsent, []Event{*e}, "record %d of key %q is at %s/%d, and was said not to be stored", e.Sequence, e.Key, f.place, f.offset)
	}
	f.denied = true
}

// stored compares the place at which a record was seen with what became of it before.
func (c *Checker) stored(e *Event) {
	if c.sent == nil || e.Value == 0 {
		return
	}
	f := c.sent[e.Value]
	switch {
	case f == nil:
		f = new(fate)
		c.sent[e.Value] = f
		c.report.violate(OnlySent, []Event{*e}, "what stands at %s/%d was never sent", e.place(), e.Offset)
	case f.denied && !f.placed:
		c.report.violate(DeniedIsAbsent, []Event{*e}, "what stands at %s/%d was said not to be stored", e.place(), e.Offset)
	}
	switch {
	case !f.placed:
		f.placed, f.place, f.offset = true, e.place(), e.Offset
	case !f.told && (f.place != e.place() || f.offset != e.Offset):
		f.told = true
		c.report.Doubled++
		c.report.violate(StoredOnce, []Event{*e}, "one record of key %q stands at %s/%d and at %s/%d", e.Key, f.place, f.offset, e.place(), e.Offset)
	}
}

// startStream checks that a key goes on in the order of its sending. first: the record was not started before.
func (c *Checker) startStream(e *Event, first bool) {
	if e.Sequence == 0 || !first {
		return
	}
	s := c.stream(e.Key)
	switch {
	case e.Sequence < s.high:
		c.report.violate(KeyOrder, []Event{s.top, *e}, "key %q: record %d was started after record %d", e.Key, e.Sequence, s.high)
	case s.open.Kind != "" && s.open.Storage != e.Storage: // in one storage topic the offsets tell
		c.report.violate(KeyOrder, []Event{s.open, *e}, "key %q went on to storage topic %d before record %d was finished", e.Key, e.Storage, s.open.Sequence)
	}
	if e.Sequence > s.high {
		s.high, s.top = e.Sequence, *e
	}
	s.open = *e
}

// endStream notes that a record was finished.
func (c *Checker) endStream(e *Event) {
	if s := c.streams[e.Key]; s != nil && e.Kind == Finished && s.open.Sequence == e.Sequence {
		s.open = Event{}
	}
}
