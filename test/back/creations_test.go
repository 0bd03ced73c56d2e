package back

import (
	"fmt"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// creations are the rows of definitions that the registry forgot as a whole, and of retention.
func creations() []row {
	return []row{
		{"DeletionAndCreation", cold, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			first := w.describe().ID
			back := w.save()
			must(w, w.rf().Admin().DeleteTopic(w.Context(), topicName, nil))
			w.topic(ringfence.TopicConfig{Partitions: 1})
			second := w.describe().ID
			w.put(10)
			back()
			w.refused(w.try(w.rf()), ringfence.ErrNotFound, first, second)
			must(w, w.rf().Admin().DeleteTopic(w.Context(), topicName, &admin.DeleteTopicOptions{ID: first}))
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.judge(10)
		}},
		{"Creation", cold, func(w *world) {
			w.begin()
			back := w.save()
			w.topic(ringfence.TopicConfig{Partitions: 2, Router: api.RouterRange})
			w.put(20)
			back()
			w.topic(ringfence.TopicConfig{Partitions: 2, Router: api.RouterRange})
			w.put(20)
			w.judge(0)
		}},
		{"CreationOfATopicThatHasGrown", cold, func(w *world) {
			w.begin()
			back := w.save()
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			w.add(3)
			w.shift()
			w.put(10)
			back()
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			w.judge(0)
			w.add(2)
			w.shift()
			w.put(10)
			w.judge(0)
		}},
		{"CreationOfATopicWhoseFirstStorageTopicIsRetired", cold, func(w *world) {
			w.begin()
			back := w.save()
			w.topic(ringfence.TopicConfig{Partitions: 2})
			w.put(10)
			w.add(3)
			w.shift()
			w.put(10)
			w.empty(0)
			w.retire()
			back()
			w.topic(ringfence.TopicConfig{Partitions: 2})
			w.put(10)
			w.judge(10)
		}},
		{"CreationWithAnotherRouter", cold, func(w *world) {
			w.begin()
			back := w.save()
			w.topic(ringfence.TopicConfig{Partitions: 4, Router: api.RouterRange})
			w.put(20)
			back()
			w.refused(w.rf().EnsureTopic(w.Context(), topicName, ringfence.TopicConfig{Partitions: 4}), ringfence.ErrExists, "range", "modulo")
			w.refused(w.rf().EnsureTopic(w.Context(), topicName, ringfence.TopicConfig{Partitions: 3, Router: api.RouterRange}), ringfence.ErrExists, "3", "4")
			w.topic(ringfence.TopicConfig{Partitions: 4, Router: api.RouterRange})
			w.put(20)
			w.judge(0)
		}},
		{"CreationWhileAProducerHasTheEmptyTopic", live, func(w *world) {
			w.begin()
			a := w.open()
			back := w.save()
			must(w, a.EnsureTopic(w.Context(), topicName, ringfence.TopicConfig{Partitions: 1}))
			_, err := a.Admin().DescribeTopic(w.Context(), topicName)
			must(w, err)
			back()
			b := w.open()
			must(w, b.EnsureTopic(w.Context(), topicName, ringfence.TopicConfig{Partitions: 1}))
			w.putBy(a, 10)
			w.putBy(b, 10)
			must(w, a.Close())
			must(w, b.Close())
			w.judge(0)
		}},
		{"Retention", both, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			back := w.save()
			_, err := w.rf().Admin().AlterTopic(w.Context(), topicName, api.Retention{AgeMS: 3_600_000}, nil)
			must(w, err)
			back()
			w.put(10)
			w.topic(ringfence.TopicConfig{Partitions: 1}) // as each start of a program does
			w.eventually("one retention in definition and log", func() error {
				info := w.describe()
				logs, err := w.rf().Log().Topics(w.Context())
				must(w, err)
				for _, l := range logs {
					if l.Name == info.Storage[0].Name && l.RetentionAgeMillis != info.Retention.AgeMS {
						return fmt.Errorf("the log keeps %d ms, the definition says %d ms", l.RetentionAgeMillis, info.Retention.AgeMS)
					}
				}
				return nil
			})
			w.judge(0)
		}},
	}
}
