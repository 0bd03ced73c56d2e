package delivery

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/subscription"
)

// Backlog is what a subscription has taken from its topic and holds back. What it has not read yet is the lag
// of its group.
type Backlog struct {
	Parked  Heap // tried again, or behind a record of the key
	Dead    Heap // given up
	Blocked int  // of Parked, those behind one that was given up: they go on when somebody has decided
}

// Heap counts records that are held back.
type Heap struct {
	Records  int
	Keys     int       // of those that have one
	OldestAt time.Time // when the oldest was produced; zero: none, or nobody knows
}

// Backlog counts what a subscription holds back. With an error it counts what could be read.
func (c *Subscriptions) Backlog(ctx context.Context, name string) (*Backlog, error) {
	j, err := c.journals(ctx, name)
	if err != nil {
		return &Backlog{}, err
	}
	b, err := j.Backlog(ctx)
	return &Backlog{Parked: heapOf(b.Parked), Dead: heapOf(b.Dead), Blocked: b.Blocked}, err
}

func heapOf(h subscription.Heap) Heap {
	return Heap{Records: h.Records, Keys: h.Keys, OldestAt: fromMillis(h.Oldest)}
}
