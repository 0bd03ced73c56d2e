package sim

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// operator is a person with a command line: a call of the registry's own code, of which each request
// takes its time. It may die between any two of them.
type operator struct {
	w    *world
	wait func(struct{}) bool // until the request has come to the store; false: it never does
}

// operate runs a call. Other processes act between its requests.
func (w *world) operate(what string, mortal bool, call func(*protocol.Group) error) {
	w.tracef("an operator begins: %s", what)
	next, stop := iter.Pull(func(wait func(struct{}) bool) {
		g, err := protocol.NewGroup(registry.New(&operator{w: w, wait: wait}), "g")
		if err != nil {
			panic(err) // a valid name
		}
		err = call(g)
		w.tracef("an operator ends: %s: %v", what, err)
	})
	w.stops = append(w.stops, stop)
	dies := mortal && w.chance(4)
	var step func()
	step = func() {
		if mortal && w.heals || dies && w.chance(3) {
			w.tracef("an operator dies: %s", what)
			stop()
			return
		}
		if _, more := next(); more {
			pause := w.brief()
			if w.chance(8) {
				pause = w.upTo(2 * w.plan.ttl)
			}
			w.later(pause, step)
		}
	}
	step()
}

func (o *operator) arrives() error {
	switch {
	case !o.wait(struct{}{}):
		return registry.ErrClosed
	case o.w.store.down:
		return registry.ErrUnavailable
	}
	return nil
}

func (o *operator) List(_ context.Context, prefix string) (registry.Snapshot, error) {
	if err := o.arrives(); err != nil {
		return registry.Snapshot{}, err
	}
	snap := registry.Snapshot{Time: o.w.wall()}
	for key, e := range o.w.store.entries {
		if strings.HasPrefix(key, prefix) {
			snap.Entries = append(snap.Entries, registry.Entry{Key: key, Value: registry.Encode(e.doc), Version: e.version, Session: e.session})
		}
	}
	slices.SortFunc(snap.Entries, func(a, b registry.Entry) int { return strings.Compare(a.Key, b.Key) })
	return snap, nil
}

func (o *operator) Apply(_ context.Context, txns []registry.Txn) ([]registry.Result, error) {
	if err := o.arrives(); err != nil {
		return nil, err
	}
	res := make([]registry.Result, len(txns))
	for i := range txns {
		res[i] = o.w.store.apply(nil, &txns[i])
		if o.w.plan.has[LostReply] && o.w.chance(4) {
			res[i] = registry.Result{Err: registry.ErrUnknown}
		}
	}
	return res, nil
}

func (o *operator) Watch(context.Context, string) (<-chan struct{}, error) {
	return nil, registry.ErrInvalid
}

func (o *operator) OpenSession(context.Context, time.Duration) (registry.Session, error) {
	return nil, registry.ErrInvalid
}

func (o *operator) Close() error { return nil }

// remove deletes the group, mostly when it has no members, and then they come at the same time.
func (w *world) remove() {
	if w.chance(2) {
		end := (*node).stop
		if w.chance(2) {
			end = (*node).kill
		}
		for _, n := range w.live() {
			end(n)
		}
		if w.chance(2) {
			w.later(w.upTo(time.Second), func() { w.newNode("") })
		}
	}
	w.later(w.upTo(pick(w.rng, time.Millisecond, time.Second)), func() {
		if !w.heals {
			w.operate("delete", true, func(g *protocol.Group) error { return g.Delete(context.Background()) })
		}
	})
	w.later(w.upTo(2*time.Second), func() {
		if !w.heals && len(w.live()) < maxNodes {
			w.newNode("")
		}
	})
}

// healing reports whether remains are in the way of a new beginning. As in the shell, the reading
// of a member that has not joined yet removes them.
func (w *world) healing(n *node) bool {
	_, there := w.store.entries[w.store.meta]
	if len(w.store.entries) == 0 || there && !doc[protocol.Meta](w.store, w.store.meta).Deleting || n.joined {
		return false
	}
	if !n.healing {
		n.healing = true
		w.operate("heal", false, func(g *protocol.Group) error {
			defer func() { n.healing = false }()
			return g.Heal(context.Background())
		})
	}
	return true
}
