package back

import "github.com/ringfence/ringfence"

// topics are the rows of definitions.
func topics() []row {
	return []row{
		{"Deletion", cold, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 2})
			w.put(10)
			back := w.save()
			must(w, w.rf().Admin().DeleteTopic(w.Context(), topicName, nil))
			back()
			w.refused(w.try(w.rf()), ringfence.ErrNotFound, "it was deleted and the registry went back")
			must(w, w.rf().Admin().DeleteTopic(w.Context(), topicName, nil))
			w.topic(ringfence.TopicConfig{Partitions: 2})
			w.put(10)
			w.judge(10)
		}},
	}
}
