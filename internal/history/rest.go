package history

// ReadAgain is promised of what lies in the log once the load is over, beside OneValue.
const ReadAgain Promise = "an acknowledged record can be read again"

// Rest judges what lies in the log at the end: it gets the acknowledged records first, in any order, and then
// those that a reader finds. It keeps eight bytes for each record.
type Rest struct {
	report Report
	parts  map[place]*partition
}

// Acked notes a record that the log acknowledged.
func (r *Rest) Acked(e *Event) {
	p := r.partition(e)
	p.know(e)
	p.at(e.Offset).acked = true
	r.report.Produced++
}

// Read compares a record that was read with the acknowledged one.
func (r *Rest) Read(e *Event) {
	p := r.partition(e)
	if !p.know(e) {
		r.report.violate(OneValue, []Event{*e}, "the record at %s/%d is another one than was acknowledged", e.place(), e.Offset)
	}
	p.at(e.Offset).done = true
}

// Dropped says that retention took what lies in front of the event's offset.
func (r *Rest) Dropped(e *Event) { r.partition(e).excuse(0, e.Offset) }

// Damaged says that nothing can be read from the event's offset on up to resume, and why.
func (r *Rest) Damaged(e *Event, resume int64) {
	r.report.violate(ReadAgain, nil, "records of %s from %d on are damaged: %s", e.place(), e.Offset, e.Reason)
	r.partition(e).excuse(e.Offset, resume)
}

// Judge ends the reading. A storage topic that was retired is left out: gone tells which.
func (r *Rest) Judge(gone func(storage int) bool) *Report {
	for _, at := range inOrder(r.parts) {
		if gone(at.storage) {
			continue
		}
		if first, n := r.parts[at].missing(); n > 0 {
			r.report.violate(ReadAgain, nil, "%d acknowledged records of %s are not there any more, the first is %d", n, at, first)
		}
	}
	return &r.report
}

func (r *Rest) partition(e *Event) *partition {
	if r.parts == nil {
		r.parts = make(map[place]*partition)
	}
	p := r.parts[e.place()]
	if p == nil {
		p = newPartition()
		r.parts[e.place()] = p
	}
	return p
}

// Include adds what another judge found.
func (r *Report) Include(other *Report) {
	for p, n := range other.Broken {
		if r.Broken == nil {
			r.Broken = make(map[Promise]int64)
		}
		r.Broken[p] += n
	}
	r.Violated += other.Violated
	r.Violations = append(r.Violations, other.Violations...)
}
