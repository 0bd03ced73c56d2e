package sim

import (
	"bytes"
	"slices"

	"github.com/ringfence/ringfence/subscription/core"
)

// order orders something about some of the dead letters.
func (w *shard) order() {
	r := core.Record{Set: set, Kind: core.Order, At: w.now, Order: "o", Verb: core.Redrive}
	switch k := w.rnd.IntN(13); {
	case k > 11:
		r.Verb = core.Retry
	case k < 5 || w.healed && k < 8:
		r.Verb = core.Edit
	case w.healed || k > 10:
	case k < 6:
		r.Verb = core.Discard
	default:
		r.Verb = core.Pass
	}
	s := stored{}
	all := r.Verb == core.Retry && w.chance(2)
	for _, it := range w.judge.oracle.Items() {
		if all && w.chance(2) {
			r.Key = it.Key // nil: it is about all
		}
		parked := r.Verb == core.Retry || (r.Verb == core.Pass || r.Verb == core.Discard) && w.chance(20)
		if all || !it.Dead && !parked || !w.healed && !w.chance(2) || r.Verb == core.Edit && len(r.IDs) > 0 {
			continue
		}
		r.IDs = append(r.IDs, it.ID)
		switch r.Verb {
		case core.Edit:
			w.edits++
			r.Key, s.key, s.payload = it.Key, it.Key, &copied{it.Origin, w.edits}
		case core.Redrive:
			w.counts.Redriven++
		case core.Retry:
		default:
			w.judge.discarded[it.Origin] = true
		}
	}
	if len(r.IDs) > 0 || all {
		w.log("order %d: %v", r.Verb, r.IDs)
		s.header = core.Encode(&r, r.Key)
		w.land([]stored{s})
	}
}

// noteOut decides the outcome of a note about dead letters.
func (n *node) noteOut() {
	w := n.w
	if len(n.notes) == 0 || !w.healed && w.chance(6) {
		return
	}
	note := n.notes[0]
	for i := range note.Of {
		if e := &note.Of[i]; e.Payload.From != core.InJournal { // there it may be finished, and trimmed, by now
			w.payload(n, e.Payload, e.ID.Origin)
		}
	}
	for _, id := range note.IDs {
		if was, again := w.judge.noted[id]; again {
			w.counts.Renoted++
			if was != note.Verb && !w.rolled {
				w.fail("of dead letter %v is noted first %d, then %d", id, was, note.Verb)
			}
		}
		w.judge.noted[id] = note.Verb
	}
	if !w.healed && w.chance(6) {
		return // outcome unknown: it is stored once more
	}
	n.notes = n.notes[1:]
	n.st.Noted(note)
	n.effects()
}

// ordered notes the values to be delivered in the next rounds of the records that an order took.
func (j *judge) ordered(at int64, s stored, r *core.Record) {
	if r.Kind != core.Order {
		return
	}
	if r.Verb == core.Retry {
		if len(j.w.parents) > 0 && j.w.reg.ck == nil {
			j.retries = append(j.retries, r)
		}
		for _, it := range j.oracle.Items() {
			if len(r.IDs) == 0 && (r.Key == nil || bytes.Equal(r.Key, it.Key)) || slices.Contains(j.oracle.Took(at), it.ID) {
				j.due[it.Origin] = 0
			}
		}
		return
	}
	for _, id := range j.oracle.Took(at) {
		next := core.ID{Origin: id.Origin, Round: id.Round + 1}
		switch r.Verb {
		case core.Edit:
			j.value[next] = s.payload.value
		case core.Redrive:
			j.value[next] = j.value[id]
		}
	}
}

// retried reports whether an order to retry came before an heir took a record over.
func (j *judge) retried(it *core.Item) bool {
	return j.w.reg.ck == nil && slices.ContainsFunc(j.retries, func(r *core.Record) bool {
		return slices.Contains(r.IDs, it.ID) || len(r.IDs) == 0 && (r.Key == nil || bytes.Equal(r.Key, it.Key))
	})
}

// decided judges what becomes of a dead letter, or of a parked record that was neither delivered nor dropped: it was ordered, and noted.
func (j *judge) decided(before, after *core.Item) {
	if before != nil && !before.Dead && after == nil && before.Order != 0 && j.delivered[before.Origin] == 0 && !j.dropped[before.Origin] && j.noted[before.ID] != before.Order && !j.w.rolled {
		j.w.fail("of the parked record %v is noted %d; ordered was %d", before.ID, j.noted[before.ID], before.Order)
	}
	if before == nil || !before.Dead || after != nil && after.Round == before.Round {
		return
	}
	w := j.w
	again := before.Order == core.Redrive || before.Order == core.Edit
	switch {
	case w.rolled:
	case before.Order == 0 || again != (after != nil):
		w.fail("dead letter %v was ordered to be %d, and became %+v", before.ID, before.Order, after)
	case j.noted[before.ID] != before.Order:
		w.fail("of dead letter %v is noted %d; ordered was %d", before.ID, j.noted[before.ID], before.Order)
	}
	switch before.Order {
	case core.Pass:
		w.counts.Skipped++
	case core.Edit:
		w.counts.Edited++
	}
}

// valued judges which value is kept of a record.
func (j *judge) valued(it *core.Item) {
	have := -1
	if it.Dead {
		have = j.w.dead[it.Copy].value
	} else if p := j.w.journal[it.Place].payload; p != nil {
		have = p.value
	}
	if want := j.value[it.ID]; have != want && !j.w.rolled {
		j.w.fail("of %v value %d is kept; expected %d", it.ID, have, want)
	}
}
