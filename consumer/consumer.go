// Package consumer makes a process a member of a group that consumes a topic. It joins the ownership of
// units (group), the handling of a unit's records (dispatch) and the places of units (topic), and adds
// a member's other duties: retention holds, offsets for the tools of a log's server, retirement.
//
// For admins it has seeks and the description of a group.
package consumer

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/topic"
)

// Config is a member of a group, and how it handles the records of its units.
type Config struct {
	Group   group.Config // as Layout.LayOut has left it
	Topic   *topic.Topic // as the caller has it open; the caller closes it
	Catalog *topic.Catalog
	Log     *commitlog.Log
	// Engine configures the engine of each unit; what differs by unit, and the handler, are set here.
	Engine dispatch.Config
	// Handler makes the handler of a unit, each time the unit comes.
	Handler func(u *group.Unit) dispatch.Handler
	Latest  bool   // where there is no checkpoint, begin at the end
	Layout  Layout // the one given to the group
	// Transactional: the handlers store the checkpoints, in transactions of their own.
	Transactional bool
	Around        Around                // nil: nothing is
	Seen          func(*topic.Document) // called with the topic's definition; nil: not called
	Logger        *slog.Logger
}

// Around runs a unit whose handler does not get every record: it calls run, at most once, with the
// settings of the unit's engine, and returns when nothing of the unit runs any more.
type Around func(ctx context.Context, u *group.Unit, in []dispatch.Input, h dispatch.Handler, run func(context.Context, Inner) error) error

// Inner overrides Config for the engine of a unit.
type Inner struct {
	Handler dispatch.Handler
	Retry   dispatch.Retry
	OnHeld  func(context.Context, *dispatch.Record, dispatch.Held) error // nil: failing records are tried for ever
	// Journal returns from where a start at these positions needs a journal; nil: there is none.
	Journal func([]protocol.Position) int64
	// Deliveries returns what to store for people; the same pointer while there is nothing new. nil: which record
	// fails.
	Deliveries func() *protocol.Deliveries
	Began      func(*dispatch.Engine) // called with the engine, before that runs; nil: not called
	Start      []protocol.Position    // where it begins; nil: at its checkpoint
	Enough     <-chan struct{}        // closed when it is to drain; nil: only when its unit is
	Writes     []*commitlog.Topic     // topics that must be durable before the checkpoint
}

// run is a member until ctx ends: see Consume.
func run(ctx context.Context, c *Config) error {
	layouts := make(chan group.Layout, 1)
	c.Group.Layouts = layouts
	g, err := protocol.NewGroup(c.Group.Registry, c.Group.Group)
	if err != nil {
		return err
	}
	w := &unitWorker{Config: c, group: g}
	w.layout.Store(&c.Group.Layout)
	if c.Seen == nil {
		c.Seen = func(*topic.Document) {}
	}
	c.Seen(c.Topic.Document())
	var order sync.Mutex // a layout that comes later is no older
	adopt := func() group.Layout {
		order.Lock()
		defer order.Unlock()
		l := c.Layout.of(c.Topic.Document())
		w.layout.Store(&l) // before a unit of it can start
		latest(layouts, l)
		return l
	}
	c.Group.Refresh = func(ctx context.Context) (group.Layout, error) {
		if err := c.Topic.Refresh(ctx); err != nil {
			return nil, err
		}
		return adopt(), nil
	}
	c.Group.Defined = c.Topic.Unchanged
	inner, cancel := context.WithCancel(ctx)
	running, stop := context.WithCancel(ctx)
	defer stop()
	var moved, lost error
	var once sync.Once
	w.lost = func(err error) {
		once.Do(func() {
			lost = err
			stop()
		})
	}
	var chores sync.WaitGroup
	chores.Go(func() {
		moved = c.Topic.Follow(inner, c.Logger, func() {
			c.Seen(c.Topic.Document())
			adopt()
		})
		if moved != nil {
			stop()
		}
	})
	offsets := offsetPublisher{log: c.Log, group: g, topic: c.Topic, member: c.Group.Member, logger: c.Logger}
	chores.Go(func() { offsets.run(inner) })
	hold := NewHold(g, c.Topic, c.Logger)
	hold.member, hold.latest = true, c.Latest
	if err = hold.Require(running); err == nil {
		chores.Go(func() { hold.Run(inner) })
		chores.Go(func() { retirer{catalog: c.Catalog, worker: w, logger: c.Logger}.run(inner) })
		err = group.Run(running, c.Group, w)
	} else {
		err = UnlessEnded(running, err)
	}
	cancel()
	chores.Wait()
	hold.End(ctx)
	return errors.Join(err, moved, lost)
}

// latest leaves a layout to be picked up, in the place of one that was not picked up yet.
func latest(ch chan group.Layout, l group.Layout) {
	for {
		select {
		case ch <- l:
			return
		default:
		}
		select {
		case <-ch:
		default:
		}
	}
}
