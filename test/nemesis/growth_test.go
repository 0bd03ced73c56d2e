package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/harness"
)

// The topics grow while members, servers and the network are hurt, and keepers retire what every group
// is past, all the time. Records are kept for a second: what is behind all groups goes soon, and what
// one needs has to stay.

var topicConfig = ringfence.TopicConfig{Partitions: partitions, RetentionAgeMS: time.Second.Milliseconds()}

var growTopics = trouble{Trouble: harness.Trouble{Name: "the topics grow", Hurts: theTopics, Hold: upToASecond}, begin: grow}

// namespaces are the scenes with a topic of their own.
var namespaces = []int{0, 2}

const (
	call      = 10 * time.Second       // on a store that may be away
	again     = 100 * time.Millisecond // until the next try
	firstTime = time.Millisecond       // at least, that a keeper's try may take, and
	lastTime  = 3 * time.Second        // at most: many are broken off wherever they are
)

// grow gives each topic a storage topic and switches to it, beside what else happens. It is joined at the
// end of the step, when that is made good.
func grow(w *world, _ int) func() {
	for _, s := range namespaces {
		w.growing.Go(func() {
			if err := growOne(w.t.Context(), w.clients[s]); err != nil {
				w.t.Errorf("%s: the topic does not grow: %v", scenes[s], err)
			}
		})
	}
	return nil
}

// growOne tries it until it is done: the store may be away, and nobody may know what became of a try.
func growOne(ctx context.Context, client *ringfence.Client) error {
	ctx, cancel := context.WithTimeout(ctx, healing)
	defer cancel()
	before := -1
	for {
		done, err := growStep(ctx, client, &before)
		if done || err != nil && !transient(err) && !errors.Is(err, fault.Conflict) {
			return err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// growStep goes on from where the topic is. before is the storage topic that took new records when it
// was first seen; -1: it was not.
func growStep(ctx context.Context, client *ringfence.Client, before *int) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	info, err := client.Admin().DescribeTopic(ctx, topic)
	if err != nil {
		return false, err
	}
	if *before < 0 {
		*before = info.Produce
	}
	switch {
	case info.Produce > *before:
		return true, nil
	case len(info.Storage) == info.Produce+1:
		_, err = client.Admin().AddStorage(ctx, topic, partitions)
	default:
		_, err = client.Admin().SwitchProduce(ctx, topic)
	}
	return false, err
}

// retireMeanwhile retires what can be retired until ctx ends. Most tries have too little time: what they leave half
// done is finished by a later one.
func (w *world) retireMeanwhile(ctx context.Context, keepers *sync.WaitGroup) {
	for _, s := range namespaces {
		keepers.Go(func() { // joined by the caller
			random := rand.New(rand.NewPCG(w.seed, uint64(s))) //nolint:gosec // no secret
			for ctx.Err() == nil {
				patience := firstTime << random.IntN(13)
				try, cancel := context.WithTimeout(ctx, min(patience, lastTime))
				if _, err := w.clients[s].Admin().RetireStorage(try, topic, nil); err != nil && !transient(err) {
					w.t.Errorf("%s: nothing can be retired: %v", scenes[s], err)
				}
				cancel()
				select {
				case <-time.After(again):
				case <-ctx.Done():
				}
			}
		})
	}
}

// retireRest retires what is left when all is processed and the members are still there, who tell the log
// what they need no more.
func (w *world) retireRest() {
	w.t.Helper()
	last := ""
	defer func() {
		if w.t.Failed() {
			w.t.Log("the last look: ", last)
		}
	}()
	w.until("all that is finished is retired", func() bool {
		for _, s := range namespaces {
			ctx, cancel := context.WithTimeout(w.t.Context(), call)
			done, err := w.clients[s].Admin().RetireStorage(ctx, topic, nil)
			cancel()
			if err != nil || len(done.Kept) > 0 {
				last = fmt.Sprintf("%s: %+v, %v", scenes[s], done, err)
				return false
			}
		}
		return true
	})
}

// storage counts the storage topics that took over from others, and those that are retired.
func (w *world) storage() (grown, retired int) {
	w.t.Helper()
	for _, s := range namespaces {
		var info api.Topic
		w.persist("the topic is described", func(ctx context.Context) (err error) {
			info, err = w.clients[s].Admin().DescribeTopic(ctx, topic)
			return err
		})
		grown += info.Produce
		for _, st := range info.Storage {
			if st.Retired() {
				retired++
			}
		}
	}
	return grown, retired
}
