package back

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/registry"
)

const subName = "billing"

// subscriptions are the rows of subscriptions, their shard sets and their journals.
func subscriptions() []row {
	return []row{
		{"SubscriptionFromTheEarliest", cold, func(w *world) { w.subscription(ringfence.Earliest, 0) }},
		{"DeadLetterOfAForgottenSubscription", cold, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 2})
			back := w.save()
			w.ensure(ringfence.Earliest)
			w.put(8)
			m := w.subscribe(func() error { return ringfence.Permanent(errors.New("no")) })
			w.parked(4) // one a key
			_, err := w.rf().Admin().RedriveDeadLetters(w.Context(), subName, nil)
			must(w, err)
			w.decided(4)
			w.parked(4)
			must(w, m.end())
			back()
			w.ensure(ringfence.Earliest)
			w.decided(4)
			m = w.subscribe(nil)
			w.parked(4)
			_, err = w.rf().Admin().RedriveDeadLetters(w.Context(), subName, nil)
			must(w, err)
			w.await(0, m)
			w.decided(8)
			must(w, m.end())
		}},
		{"Reshard", both, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 4})
			w.ensure(ringfence.Earliest)
			m := w.subscribe(no)
			w.put(10)
			w.parked(10)
			must(w, m.end())
			back := w.save()
			_, err := w.rf().Admin().ReshardSubscription(w.Context(), subName, 2, nil)
			must(w, err)
			m = w.subscribe(no)
			w.turned()
			w.put(10)
			w.parked(20)
			must(w, m.end())
			back()
			w.put(10)
			m = w.subscribe(nil)
			w.await(0, m)
			must(w, m.end())
		}},
		{"GrowthUnderASubscription", both, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 2})
			w.ensure(ringfence.Earliest)
			m := w.subscribe(no)
			w.put(10)
			w.parked(10)
			must(w, m.end())
			back := w.save()
			w.add(3)
			w.shift()
			w.put(10)
			m = w.subscribe(no)
			w.turned()
			w.parked(20)
			must(w, m.end())
			back()
			w.put(10)
			m = w.subscribe(nil)
			w.await(0, m)
			must(w, m.end())
			w.inOrder(m)
		}},
		{"Reset", cold, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 2})
			w.ensure(ringfence.Earliest)
			w.put(10)
			m := w.subscribe(nil)
			w.await(0, m)
			must(w, m.end())
			back := w.save()
			_, err := w.rf().Admin().ResetSubscription(w.Context(), subName, ringfence.SeekEarliest, nil)
			must(w, err)
			m = w.subscribe(no)
			w.turned()
			w.parked(10)
			must(w, m.end())
			back()
			w.put(10)
			m = w.subscribe(nil)
			w.await(0, m) // also what was done before the reset
			must(w, m.end())
		}},
		{"ReshardLongAgo", both, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 4})
			w.ensure(ringfence.Earliest)
			w.put(10)
			back := w.save()
			rf := w.another()
			w.reshardLongAgo()
			back()
			w.put(10)
			m := w.subscribeBy(rf(), nil)
			w.await(0, m)
			must(w, m.end())
			w.inOrder(m)
		}},
		{"SubscriptionAfterAReshardLongAgo", cold, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 4})
			back := w.save()
			w.ensure(ringfence.Earliest)
			w.put(10)
			w.reshardLongAgo()
			back()
			w.put(10)
			w.ensure(ringfence.Earliest)
			m := w.subscribe(nil)
			w.await(0, m)
			must(w, m.end())
			w.inOrder(m)
		}},
		{"DeletionOfASubscription", cold, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 2})
			w.ensure(ringfence.Earliest)
			m := w.subscribe(no)
			w.put(10)
			w.parked(10)
			must(w, m.end())
			back := w.save()
			must(w, w.rf().Admin().DeleteSubscription(w.Context(), subName, &admin.DeleteSubscriptionOptions{Force: true}))
			back()
			must(w, w.rf().Admin().DeleteSubscription(w.Context(), subName, &admin.DeleteSubscriptionOptions{Force: true}))
			w.ensure(ringfence.Earliest)
			m = w.subscribe(nil)
			w.await(0, m)
			must(w, m.end())
			w.inOrder(m)
		}},
		{"PauseOfASubscription", cold, func(w *world) {
			w.topic(ringfence.TopicConfig{Partitions: 2})
			w.ensure(ringfence.Earliest)
			back := w.save()
			_, err := w.rf().Admin().PauseSubscription(w.Context(), subName, nil)
			must(w, err)
			back()
			w.put(10)
			m := w.subscribe(nil)
			w.await(0, m)
			must(w, m.end())
		}},
	}
}

// subscription forgets a subscription that has parked records, and some to come.
func (w *world) subscription(from ringfence.From, first int) {
	w.topic(ringfence.TopicConfig{Partitions: 2})
	w.put(10)
	back := w.save()
	w.ensure(from)
	m := w.subscribe(no)
	if from == ringfence.Latest {
		w.begun()
	}
	w.put(10)
	w.parked(20 - first)
	must(w, m.end())
	w.put(10)
	back()
	w.put(10)
	w.ensure(from)
	m = w.subscribe(nil)
	w.await(first, m)
	must(w, m.end())
	w.inOrder(m)
	w.ensure(from) // as each start of a program does
	must(w, w.rf().Admin().DeleteSubscription(w.Context(), subName, &admin.DeleteSubscriptionOptions{Force: true}))
	for _, name := range w.names() {
		if strings.Contains(name, subName) {
			w.Errorf("after the deletion the log has %s", name)
		}
	}
}

// ensure makes the subscription, as each start of a program does.
func (w *world) ensure(from ringfence.From) {
	w.Helper()
	_, err := w.rf().Admin().CreateSubscription(w.Context(), subName, admin.SubscriptionConfig{
		Topic: topicName, From: from, Hold: -1, Retry: admin.Retry{Initial: time.Second, Max: time.Second, Attempts: 100}, DeadLetters: api.BlockKey,
	})
	must(w, err)
}

func no() error { return errors.New("no") }

// subscribe starts a member whose handler returns what answer does; nil: it takes all.
func (w *world) subscribe(answer func() error) *member {
	w.Helper()
	return w.subscribeBy(w.rf(), answer)
}

// another is a process that has the journals of the subscription open from now on, if any lives through it.
func (w *world) another() func() *ringfence.Client {
	w.Helper()
	if !w.live {
		return w.rf
	}
	rf := w.open()
	w.Cleanup(func() { must(w, rf.Close()) })
	_, err := rf.Admin().DescribeSubscription(w.Context(), subName)
	must(w, err)
	return func() *ringfence.Client { return rf }
}

func (w *world) subscribeBy(rf *ringfence.Client, answer func() error) *member {
	return w.run(func(ctx context.Context, h ringfence.Handler) error {
		return rf.Subscribe(ctx, subName, func(ctx context.Context, m *ringfence.Message) error {
			if answer != nil {
				return answer()
			}
			return h(ctx, m)
		}, &ringfence.SubscribeOptions{SessionTTL: ttl})
	})
}

// status waits until the subscription's state is as wanted.
func (w *world) status(what string, done func(*api.SubscriptionStatus) bool) {
	w.Helper()
	w.eventually(what, func() error {
		s, err := w.rf().Admin().DescribeSubscription(w.Context(), subName)
		if err == nil && !done(s) {
			err = fmt.Errorf("%+v, group %+v", *s, s.Group)
		}
		return err
	})
}

// parked waits until so many records are parked, or dead letters.
func (w *world) parked(n int) {
	w.Helper()
	w.status(fmt.Sprintf("%d parked records", n), func(s *api.SubscriptionStatus) bool {
		return s.Parked.Records+s.Dead.Records >= n && s.Group != nil && s.Group.Lag == 0
	})
}

// decided waits until so many decisions are known.
func (w *world) decided(n int) {
	w.Helper()
	w.eventually(fmt.Sprintf("%d decisions", n), func() error {
		all, err := w.rf().Admin().ListDeadLetters(w.Context(), subName, &admin.DeadLetterOptions{Decided: true})
		if by := len(slices.DeleteFunc(all, func(d api.DeadLetter) bool { return d.DecidedBy == "" })); err == nil && by != n {
			err = fmt.Errorf("%d decisions", by)
		}
		return err
	})
}

// begun waits until all shards have begun: those from the latest record have their place.
func (w *world) begun() {
	w.Helper()
	w.status("shards that have begun", func(s *api.SubscriptionStatus) bool {
		return s.Group != nil && len(s.Group.Units) == 2 && s.Group.Units[0].Owner != "" && s.Group.Units[1].Owner != "" && s.Group.Lag == 0
	})
}

// turned waits until the reshard is over.
func (w *world) turned() {
	w.Helper()
	w.status("end of the reshard", func(s *api.SubscriptionStatus) bool { return !s.Changing() && len(s.Sets) == 2 })
}

// reshardLongAgo reshards, with all records parked, and lets so much time pass that the first set is forgotten.
func (w *world) reshardLongAgo() {
	w.Helper()
	m := w.subscribe(no)
	w.parked(10)
	info, err := w.rf().Admin().ReshardSubscription(w.Context(), subName, 2, nil)
	must(w, err)
	w.turned()
	must(w, m.end())
	w.put(10)
	key := "subscriptions/" + info.Name
	e, err := w.rf().Registry().Get(w.Context(), key)
	must(w, err)
	var doc map[string]any
	must(w, json.Unmarshal(e.Value, &doc))
	doc["sets"].([]any)[0].(map[string]any)["since"] = 1
	_, err = w.rf().Registry().Txn(w.Context(), registry.Txn{Puts: []registry.Put{{Key: key, Value: registry.Encode(doc)}}})
	must(w, err)
	m = w.subscribe(no)
	w.eventually("end of what the first set has left", func() error {
		journals := 0
		for _, name := range w.names() {
			if strings.Contains(name, ".retry..") {
				journals++
			}
		}
		if journals != 1 {
			return fmt.Errorf("%d journals", journals)
		}
		return nil
	})
	w.parked(20)
	must(w, m.end())
}
