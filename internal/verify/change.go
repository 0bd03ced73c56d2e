package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence"
)

// What changes the storage topics of the topic, beside what else happens to it.

const (
	changing = 30 * time.Second // for a growth or a retirement
	// retention is short where storage topics are to be retired: what every consumer is past goes soon.
	retention = time.Second
	// firstTry is how long a retirement may take before it is given up wherever it is; each further try may
	// take twice as long. So the first ones are left half done, as by a process that died over them.
	firstTry = time.Millisecond
)

// topicConfig is what the topic is made with.
func (r *run) topicConfig() ringfence.TopicConfig {
	c := ringfence.TopicConfig{Partitions: r.Partitions}
	if r.has(Retire) {
		c.RetentionAgeMS = retention.Milliseconds()
	}
	return c
}

// change does one change at a time of each kind. A stopped process may keep it from being done.
func (r *run) change(ctx context.Context, f *Fault, do func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[f.Kind] {
		f.Note = "the last one was still under way"
		return
	}
	r.busy[f.Kind] = true
	r.changing.Go(func() { // joined by hurt
		ctx, cancel := context.WithTimeout(ctx, changing)
		defer cancel()
		err := do(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.busy[f.Kind], f.Done = false, err == nil
		if err != nil {
			f.Note = err.Error()
		}
	})
}

// grow adds a storage topic and switches to it.
func (c *crew) grow(ctx context.Context, partitions int) error {
	_, err := c.rf.Admin().AddStorage(ctx, c.topic, partitions)
	if err == nil {
		_, err = c.rf.Admin().SwitchProduce(ctx, c.topic)
	}
	return err
}

var (
	errNoneSealed = errors.New("no storage topic was finished")
	errKept       = errors.New("not retired")
)

// retire retires what is sealed, until something was retired or the run's load is over.
func (r *run) retire(ctx context.Context) error {
	grown, before, err := r.storages(ctx)
	if err != nil {
		return err
	}
	if grown == before {
		return errNoneSealed
	}
	ctx, cancel := context.WithDeadline(ctx, r.began.Add(r.For))
	defer cancel()
	for patience := firstTry; ; patience *= 2 {
		kept, err := r.retireOnce(ctx, min(patience, changing))
		_, now, counting := r.storages(ctx)
		if counting == nil && now > before {
			return nil
		}
		if pause(ctx, 5*look) != nil {
			return errors.Join(kept, err)
		}
	}
}

// retireOnce tries it once, and says why the oldest storage topic stays that takes no records.
func (r *run) retireOnce(ctx context.Context, patience time.Duration) (kept, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	done, err := r.rf.Admin().RetireStorage(ctx, r.topic, nil)
	if err == nil && len(done.Kept) > 0 {
		kept = fmt.Errorf("storage topic %d is %w: %s", done.Kept[0].Index, errKept, done.Kept[0].Why)
	}
	return kept, err
}

// retireRest retires what is left once all is processed, while consumers tell the log what they need no more.
func (r *run) retireRest(ctx context.Context) error {
	if !r.result.Complete || !r.has(Retire) {
		return nil
	}
	r.phase = "what is finished is retired"
	end := time.Now().Add(changing)
	for {
		kept, err := r.retireOnce(ctx, changing)
		if kept == nil && err == nil {
			return nil
		}
		if time.Now().After(end) { // a store that does not retire it in time breaks no promise
			r.notes = append(r.notes, errors.Join(kept, err).Error())
			return nil
		}
		if err := errors.Join(r.revive(), r.follow(), pause(ctx, look)); err != nil {
			return err
		}
	}
}

// tellStorage tells the figures how often the topic grew, and what was retired.
func (r *run) tellStorage() {
	ctx, cancel := context.WithTimeout(context.Background(), clearing)
	defer cancel()
	var err error
	r.result.Figures.Grown, r.result.Figures.Retired, err = r.storages(ctx)
	if err != nil {
		r.notes = append(r.notes, "how many storage topics were retired is not known: "+err.Error())
	}
	if r.Subscriptions {
		if err := r.tellTurns(ctx); err != nil {
			r.notes = append(r.notes, "how often the shards changed is not known: "+err.Error())
		}
	}
}

// storages counts the storage topics that took over from another, and those that are retired.
func (r *run) storages(ctx context.Context) (grown, retired int64, err error) {
	info, err := r.rf.Admin().DescribeTopic(ctx, r.topic)
	for _, s := range info.Storage {
		if s.Retired() {
			retired++
		}
	}
	return int64(info.Produce), retired, err
}
