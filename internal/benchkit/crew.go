package benchkit

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// patience is how long an event may take before the measurement fails.
const patience = 30 * time.Second

// heard is an event and who told it.
type heard struct {
	member int
	event
	err error
}

// crew is consumer processes of one group, and who listens to them. One goroutine uses it.
type crew struct {
	common  *Common
	job     memberJob        // of each; the names differ
	task    func(i int) task // instead of it, when not nil
	members []*agent
	readers sync.WaitGroup
	events  chan heard
	note    func(heard) // sees every event first
}

func newCrew(c *Common, size int, job memberJob, note func(heard)) *crew {
	return &crew{common: c, job: job, members: make([]*agent, size), events: make(chan heard), note: note}
}

// start starts member i and the goroutine that listens to it.
func (c *crew) start(ctx context.Context, i int) error {
	job := c.job
	job.Member = fmt.Sprintf("member-%d", i)
	t := task{Member: &job}
	if c.task != nil {
		t = c.task(i)
	}
	a, err := c.common.startAgent(ctx, t)
	if err != nil {
		return err
	}
	c.members[i] = a
	c.readers.Go(func() { // joined by close
		for {
			m, err := a.next()
			if err == nil && m.Event == nil {
				continue
			}
			h := heard{member: i, err: err}
			if err == nil {
				h.event = *m.Event
			}
			c.events <- h
			if err != nil {
				return
			}
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
func (c *crew) close() {
	for _, a := range c.members {
		if a != nil {
			a.kill()
		}
	}
	done := make(chan struct{})
	go func() { // ends with the listeners, which the loop below lets go
		c.readers.Wait()
		close(done)
	}()
	for {
		select {
		case <-c.events:
		case <-done:
			return
		}
	}
}

// until takes in events until enough says so.
func (c *crew) until(ctx context.Context, what string, enough func(heard) bool) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case h := <-c.events:
			c.note(h)
			if enough(h) {
				return nil
			}
		case <-timer.C:
			return fmt.Errorf("waited %s for %s", patience, what)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pass takes in events for a while.
func (c *crew) pass(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case h := <-c.events:
			c.note(h)
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ask puts a question to all members but one (-1: to all) and waits for their answers.
func (c *crew) ask(ctx context.Context, question string, but int, use func(heard)) error {
	left := 0
	for i, a := range c.members {
		if i == but {
			continue
		}
		if err := a.tell(question); err != nil {
			return err
		}
		left++
	}
	return c.until(ctx, question, func(h heard) bool {
		if h.Kind == question {
			left--
			if use != nil {
				use(h)
			}
		}
		return left == 0
	})
}
