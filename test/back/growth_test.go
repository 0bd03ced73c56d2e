package back

import "github.com/ringfence/ringfence"

// growth are the rows of storage topics that are added, switched to and retired.
func growth() []row {
	return []row{
		{"AdditionAndSwitch", both, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			back := w.save()
			w.add(2)
			w.shift()
			w.put(10)
			back()
			w.put(10)
			w.add(3)
			w.shift()
			w.put(10)
			w.judge(0)
		}},
		{"TwoAdditions", both, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 1})
			back := w.save()
			w.put(10)
			w.add(2)
			w.shift()
			w.put(10)
			w.add(4)
			w.shift()
			w.put(10)
			back()
			w.judge(0)
		}},
		{"AdditionAndSwitchWithoutARecordBehind", both, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			back := w.save()
			w.add(2)
			w.shift()
			back()
			w.eat("g", ringfence.Earliest, 0)
			w.judge(0)
		}},
		{"Addition", both, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			back := w.save()
			w.add(2)
			back()
			w.put(10)
			w.add(2)
			w.shift()
			w.put(10)
			w.judge(0)
		}},
		{"AdditionThenOneOfAnotherShape", cold, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			back := w.save()
			w.add(2)
			back()
			w.add(3)
			w.shift()
			w.put(10)
			w.shift()
			w.put(10)
			w.judge(0)
			if s := w.describe().Storage; len(s) != 3 || len(s[1].Partitions) != 2 || len(s[2].Partitions) != 3 {
				w.Errorf("%+v; expected 2 partitions, and 3 behind them", s)
			}
		}},
		{"SwitchWhileNothingIsProduced", both, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.put(10)
			w.add(2)
			back := w.save()
			w.shift()
			w.put(10)
			back()
			w.eat("g", ringfence.Earliest, 0)
			w.judge(0)
		}},
		{"Retirement", both, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 2})
			w.put(10)
			w.eat("g", ringfence.Earliest, 0)
			w.add(3)
			w.shift()
			w.put(10)
			w.eat("g", ringfence.Earliest, 10)
			if w.member != nil {
				w.await(0, w.member)
				w.caughtUp("lived")
			}
			w.empty(0)
			back := w.save()
			w.retire()
			back()
			w.put(10)
			w.eat("g", ringfence.Earliest, 20)
			w.judge(10)
			w.add(1)
			w.shift()
			w.put(10)
			w.judge(10)
		}},
		{"AdditionSwitchAndRetirement", both, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 2})
			w.put(10)
			w.eat("g", ringfence.Earliest, 0)
			if w.member != nil {
				w.await(0, w.member)
			}
			back := w.save()
			w.add(3)
			w.shift()
			w.put(10)
			w.eat("g", ringfence.Earliest, 10)
			if w.member != nil {
				w.await(0, w.member)
				w.caughtUp("lived")
			}
			w.empty(0)
			w.retire()
			back()
			w.put(10)
			w.eat("g", ringfence.Earliest, 20)
			w.judge(10)
		}},
	}
}
