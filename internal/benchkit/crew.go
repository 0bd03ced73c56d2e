package benchkit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/harness"
)

// patience is how long an event may take before the measurement fails.
const patience = 30 * time.Second

// heard is an event and who told it.
type heard struct {
	member int
	event
}

// crew is processes of one measurement, and who listens to them. One goroutine uses it.
type crew struct {
	*run
	job       func(i int) harness.Job
	members   []*harness.Child
	listeners sync.WaitGroup
	events    chan heard
	note      func(heard) // sees every event first; nil: nobody does
}

// crew makes a crew, and ends it with the run.
func (r *run) crew(size int, job func(i int) harness.Job, note func(heard)) *crew {
	c := &crew{run: r, job: job, members: make([]*harness.Child, size), events: make(chan heard), note: note}
	r.later(c.close)
	return c
}

// start starts member i and the goroutine that listens to it.
func (c *crew) start(ctx context.Context, i int) error {
	a, err := c.run.start(ctx, c.job(i))
	if err != nil {
		return err
	}
	c.members[i] = a
	c.listeners.Go(func() { // joined by close
		for {
			h := heard{member: i}
			if a.Hear(&h.event) != nil {
				return
			}
			c.events <- h
		}
	})
	return nil
}

func (c *crew) startAll(ctx context.Context) error {
	for i := range c.members {
		if err := c.start(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// close ends all members and joins their listeners.
func (c *crew) close() error {
	for _, a := range c.members {
		if a != nil {
			a.End()
		}
	}
	done := make(chan struct{})
	go func() { // ends with the listeners, which the loop below lets go
		c.listeners.Wait()
		close(done)
	}()
	for {
		select {
		case <-c.events:
		case <-done:
			return nil
		}
	}
}

// until takes in events until enough says so.
func (c *crew) until(ctx context.Context, what string, enough func(heard) bool) error {
	over, err := c.listen(ctx, patience, enough)
	if err == nil && over {
		err = fmt.Errorf("waited %s for %s", patience, what)
	}
	return err
}

// pass takes in events for a while.
func (c *crew) pass(ctx context.Context, d time.Duration) error {
	_, err := c.listen(ctx, d, func(heard) bool { return false })
	return err
}

// listen takes in events until enough says so, or until the time is over.
func (c *crew) listen(ctx context.Context, d time.Duration, enough func(heard) bool) (over bool, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case h := <-c.events:
			if c.note != nil {
				c.note(h)
			}
			if enough(h) {
				return false, nil
			}
		case <-timer.C:
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// ask puts a question to all members but one (-1: to all) and waits for their answers, which have its
// first word as their kind.
func (c *crew) ask(ctx context.Context, question string, but int, use func(heard)) error {
	left := 0
	for i, a := range c.members {
		if i == but {
			continue
		}
		if err := a.Tell(question); err != nil {
			return err
		}
		left++
	}
	kind, _, _ := strings.Cut(question, " ")
	return c.until(ctx, question, func(h heard) bool {
		if h.Kind == kind {
			left--
			if use != nil {
				use(h)
			}
		}
		return left == 0
	})
}

// even says whether everybody owns its share: owner is by partition, 0 for nobody, else the member + 1.
func even(owner []int, members int) bool {
	count := make([]int, members+1)
	for _, m := range owner {
		count[m]++
	}
	return count[0] == 0 && slices.Max(count[1:])-slices.Min(count[1:]) <= 1
}
