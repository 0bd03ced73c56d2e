package measure

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/script"
)

// patience is how long an event may take, beyond the time of a turn, before the measurement fails.
const patience = 30 * time.Second

// event is what a process tells of a partition, -1 for all that it owns, or of itself.
type event struct {
	Kind      string        `json:"kind"`
	Partition int           `json:"partition"`
	Epoch     int64         `json:"epoch,omitempty"`
	Offset    int64         `json:"offset,omitempty"`
	At        int64         `json:"at,omitempty"` // Unix ns
	CPU       time.Duration `json:"cpu,omitempty"`
	Resting   bool          `json:"resting,omitempty"` // it gave back what it can do without
	Rate      float64       `json:"rate,omitempty"`
	Ages      Samples       `json:"ages,omitempty"`
}

// heard is an event and the member that told it.
type heard struct {
	member int
	event
}

// crew is processes of one measurement, and the goroutines that listen to them. One goroutine uses it.
type crew struct {
	*run
	job       func(i int) harness.Job
	members   []*harness.Child
	listeners sync.WaitGroup
	events    chan heard
	over      chan struct{} // no more events are taken in
	note      func(heard)   // sees every event first; may be nil
}

// crew starts processes, which end with a script.
func (r *run) crew(ctx context.Context, s *script.Script, size int, job func(i int) harness.Job, note func(heard)) *crew {
	c := &crew{run: r, job: job, members: make([]*harness.Child, size), events: make(chan heard), over: make(chan struct{}), note: note}
	s.Later(c.close)
	for i := range c.members {
		c.start(ctx, i)
	}
	return c
}

// start starts member i and the goroutine that listens to it.
func (c *crew) start(ctx context.Context, i int) {
	a := c.run.start(ctx, c.job(i))
	c.members[i] = a
	c.listeners.Go(func() { // joined by close
		for {
			h := heard{member: i}
			if a.Hear(&h.event) != nil {
				return
			}
			select {
			case c.events <- h:
			case <-c.over:
				return
			}
		}
	})
}

// close ends all members and joins their listeners.
func (c *crew) close() error {
	for _, a := range c.members {
		if a != nil {
			a.End()
		}
	}
	close(c.over)
	c.listeners.Wait()
	return nil
}

// until takes in events until enough says so.
func (c *crew) until(ctx context.Context, what string, enough func(heard) bool) {
	if limit := patience + c.For; !c.listen(ctx, limit, enough) {
		script.Check(fmt.Errorf("waited %s for %s", limit, what))
	}
}

// pass takes in events for a while.
func (c *crew) pass(ctx context.Context, d time.Duration) {
	c.listen(ctx, d, func(heard) bool { return false })
}

// listen takes in events until enough says so, or until the time is over.
func (c *crew) listen(ctx context.Context, d time.Duration, enough func(heard) bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case h := <-c.events:
			if c.note != nil {
				c.note(h)
			}
			if enough(h) {
				return true
			}
		case <-timer.C:
			return false
		case <-ctx.Done():
			script.Check(ctx.Err())
		}
	}
}

// ask puts a question to all members but one (-1: to all) and waits for the answers, whose kind is its first word.
func (c *crew) ask(ctx context.Context, question string, but int, use func(heard)) {
	left := 0
	for i, a := range c.members {
		if i != but {
			script.Check(a.Tell(question))
			left++
		}
	}
	kind, _, _ := strings.Cut(question, " ")
	c.until(ctx, question, func(h heard) bool {
		if h.Kind == kind {
			left--
			if use != nil {
				use(h)
			}
		}
		return left == 0
	})
}

// even says whether every member owns its share: owner is by partition, 0 for none, else the member + 1.
func even(owner []int, members int) bool {
	count := make([]int, members+1)
	for _, m := range owner {
		count[m]++
	}
	return count[0] == 0 && slices.Max(count[1:])-slices.Min(count[1:]) <= 1
}
