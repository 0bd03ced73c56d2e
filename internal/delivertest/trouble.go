package delivertest

import (
	"errors"
	"fmt"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
)

type trouble struct {
	name string
	do   func()
}

func (w *system) troubles(restart []func()) []trouble {
	all := []trouble{
		{"kill a daemon", w.killDaemon},
		{"kill the endpoint", w.killEndpoint},
		{"four shards, and kill a daemon", func() { w.turn(4); w.killDaemon() }},
		{"8 partitions, and kill a daemon", func() { w.grow(8); w.killDaemon() }},
	}
	for i, again := range restart {
		all = append(all, trouble{
			fmt.Sprintf("%d shards, kill a daemon, and restart server %d", 2+i, i),
			func() { w.reshard(2 + i); w.killDaemon(); again() },
		})
	}
	return append(all, []trouble{
		{"a daemon leaves", w.leave},
		{"six shards, and kill the endpoint", func() { w.turn(6); w.killEndpoint() }},
		{"5 partitions, and kill a daemon and the endpoint", func() { w.grow(5); w.killDaemon(); w.killEndpoint() }},
	}...)
}

// killDaemon has one more begin, and kills the oldest one.
func (w *system) killDaemon() {
	w.daemons = append(w.daemons, w.start(roleDaemon))
	w.end(w.daemons[0], (*harness.Process).Kill)
	w.daemons = w.daemons[1:]
}

// leave has the oldest one leave, in order.
func (w *system) leave() {
	w.daemons = append(w.daemons, w.start(roleDaemon))
	w.end(w.daemons[0], (*harness.Process).Leave)
	w.daemons = w.daemons[1:]
}

// killEndpoint kills it, has the daemons find nobody, and starts it again.
func (w *system) killEndpoint() {
	w.end(w.inbox, (*harness.Process).Kill)
	w.produce()
	w.inbox = w.start(roleEndpoint)
}

// reshard begins a turn to that number of shards, as soon as no other one is under way.
func (w *system) reshard(shards int) {
	w.Helper()
	w.await("the end of the turn before", func() bool {
		_, err := w.rf.Admin().ReshardSubscription(w.Context(), name, shards, nil)
		if !errors.Is(err, ringfence.ErrConflict) {
			w.must(err)
		}
		return err == nil
	})
}

// turn changes the number of shards, and waits until those before it are ending.
func (w *system) turn(shards int) {
	w.Helper()
	w.reshard(shards)
	w.await("that the turn is under way", func() bool {
		_, closing := w.describe().Closing()
		return closing || !w.describe().Changing()
	})
}

// grow has producers go on in another storage topic of so many partitions, and produces there while the shards
// read what is left of the one before.
func (w *system) grow(partitions int) {
	w.Helper()
	_, err := w.rf.Admin().AddStorage(w.Context(), topic, partitions)
	w.must(err)
	_, err = w.rf.Admin().SwitchProduce(w.Context(), topic)
	w.must(err)
	w.storage++
	w.produce()
}
