package back

import "github.com/ringfence/ringfence"

// groups are the rows of groups and their checkpoints.
func groups() []row {
	return []row{
		{"GroupFromTheEarliest", both, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 2})
			w.put(10)
			back := w.save()
			w.eat("g", ringfence.Earliest, 0)
			w.put(10)
			back()
			w.eat("g", ringfence.Earliest, 10)
			w.judge(0)
		}},
		{"SeekBack", both, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			w.eat("g", ringfence.Earliest, 0)
			back := w.save()
			_, err := w.rf().Admin().SeekGroup(w.Context(), "g", ringfence.SeekEarliest, nil)
			must(w, err)
			w.eat("g", ringfence.Earliest, 0)
			back()
			w.put(10)
			w.eat("g", ringfence.Earliest, 10)
			w.judge(0)
		}},
		{"SeekForward", both, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			w.eat("g", ringfence.Earliest, 0)
			w.put(10)
			back := w.save()
			_, err := w.rf().Admin().SeekGroup(w.Context(), "g", ringfence.SeekOffset(15), nil)
			must(w, err)
			back()
			w.put(10)
			w.eat("g", ringfence.Earliest, 10)
			w.judge(0)
		}},
		{"Pause", cold, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			w.eat("g", ringfence.Earliest, 0)
			back := w.save()
			must(w, w.rf().Admin().PauseGroup(w.Context(), "g", nil))
			back()
			w.put(10)
			w.eat("g", ringfence.Earliest, 10)
			w.judge(0)
		}},
		{"DeletionOfAGroup", cold, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			w.eat("g", ringfence.Earliest, 0)
			back := w.save()
			must(w, w.rf().Admin().DeleteGroup(w.Context(), "g", nil))
			back()
			w.put(10)
			w.eat("g", ringfence.Earliest, 10)
			must(w, w.rf().Admin().DeleteGroup(w.Context(), "g", nil))
			w.judge(0)
		}},
	}
}
