package back

import "github.com/ringfence/ringfence"

// starts are the rows of places at which groups begin.
func starts() []row {
	return []row{
		{"SubscriptionFromTheLatest", cold, func(w *world) { w.subscription(ringfence.Latest, 10) }},
		{"GroupFromTheLatest", cold, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 2})
			w.put(10)
			back := w.save()
			w.latest("g")
			w.put(10)
			before := w.eat("g", ringfence.Latest, 10)
			w.put(10)
			back()
			w.put(10)
			w.behind(ringfence.Latest, "g", 10, before)
			w.judge(0)
		}},
		{"GroupFromTheLatestAndGrowth", cold, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			back := w.save()
			w.latest("g")
			w.put(10)
			before := w.eat("g", ringfence.Latest, 10)
			w.put(10)
			w.add(2)
			w.shift()
			w.put(10)
			back()
			w.behind(ringfence.Latest, "g", 10, before)
			w.judge(0)
		}},
		{"GroupFromTheLatestThenGrowth", cold, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			back := w.save()
			w.latest("g")
			w.put(10)
			before := w.eat("g", ringfence.Latest, 10)
			back()
			w.add(2) // no group is known that would hold what comes then
			w.shift()
			w.put(10)
			w.behind(ringfence.Latest, "g", 10, before)
			w.judge(0)
		}},
		{"CheckpointBelowRetention", cold, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			w.eat("g", ringfence.Earliest, 0)
			back := w.save()
			w.put(20)
			w.eat("g", ringfence.Earliest, 10)
			w.put(10)
			w.trim(0, 20)
			back()
			w.put(10)
			w.behind(ringfence.Earliest, "g", 30)
			w.judge(30)
		}},
	}
}

// latest makes a group that begins at the latest record.
func (w *world) latest(group string) {
	w.Helper()
	m := w.consume(w.rf(), group, ringfence.Latest)
	w.caughtUp(group)
	must(w, m.end())
}

// behind lets a group have all acknowledged records from a number on, with those that it got before.
func (w *world) behind(begin ringfence.From, group string, from int, before ...*member) {
	w.Helper()
	m := w.consume(w.rf(), group, begin)
	w.await(from, append(before, m)...)
	w.caughtUp(group)
	must(w, m.end())
}

// trim drops what partition 0 of a storage topic has below an offset.
func (w *world) trim(index int, below int64) {
	w.Helper()
	st, err := w.rf().Log().Topic(w.Context(), w.describe().Storage[index].Name)
	must(w, err)
	must(w, st.Trim(w.Context(), 0, below))
	must(w, st.Close())
}
