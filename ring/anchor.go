package ring

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/registry"
)

// The members of an anchor ring share one document, the anchor, whose order of removals is part of the mapping
// of keys. Every change is written under a check of the version that was read, so there is one history. A
// member reads (look), decides what follows from that alone (step), shows what it has read, and writes what is
// due: itself into the anchor, or a dead member out of it, for which the members take turns. If another one
// wrote first, that shows as a conflict, and it looks again.

// turn is the time between one member's turn to write that another died, and the next one's.
const turn = 25 * time.Millisecond

// maxAnchorBytes bounds the anchor's document when a member enters. It leaves room for what a removal
// may add, or a full ring could not remove its dead.
const maxAnchorBytes = registry.MaxValueBytes - 4<<10

// anchorRing is a member of an anchor ring. A member enters and leaves by itself, in one
// transaction with the anchor; any other member removes one that died.
type anchorRing struct {
	r       *Ring
	session registry.Session // nil: none
	lease   *lease
	start   registry.Version // of its announcement; "": to be made again
	joined  bool             // it was in once: from then on another incarnation of our ID fences us
	seen    int64            // the highest epoch ever seen

	last *reading // the latest; a leave begins with it, and so is one call shorter

	stale     registry.Version // an anchor that does not match the live members
	staleFrom time.Time        // since when
}

func (a *anchorRing) lost() <-chan struct{} {
	if a.session == nil {
		return nil
	}
	return a.session.Done()
}

func (a *anchorRing) look(ctx context.Context) (time.Duration, error) {
	ctx, cancel := a.r.bound(ctx)
	defer cancel()
	if err := a.ensureSession(ctx); err != nil {
		return 0, err
	}
	for {
		st, err := read(ctx, a.r.cfg.Registry, a.r.cfg.Name)
		if err != nil {
			return 0, a.unreadable(err)
		}
		a.last = st
		if st.meta == nil || st.meta.Deleting {
			return 0, permanent{fmt.Errorf("ring %q was deleted: %w", a.r.cfg.Name, ErrNotFound)}
		}
		if now := st.starts[a.r.cfg.Member]; now.Version != a.start {
			if err := a.again(ctx, now); err != nil {
				return 0, err
			}
			continue
		}
		txn, wait, err := a.step(st)
		if txn == nil || err != nil {
			return wait, err
		}
		_, err = a.r.cfg.Registry.Txn(ctx, *txn)
		switch {
		case err == nil, errors.Is(err, registry.ErrConflict), errors.Is(err, registry.ErrUnknown): // the next reading shows it
		case errors.Is(err, registry.ErrInvalid) && a.joined: // it goes on as it is, until something changes
			return sweep, err
		case errors.Is(err, registry.ErrInvalid): // the store will never accept it
			return 0, permanent{fmt.Errorf("ring %q: %w", a.r.cfg.Name, err)}
		default: // when the session has ended, its Done is about to say so
			return 0, err
		}
	}
}

// ensureSession opens a session when there is none, or the last one has ended.
func (a *anchorRing) ensureSession(ctx context.Context) error {
	if a.session != nil {
		if !isClosed(a.session.Done()) {
			return nil
		}
		a.r.cfg.Logger.Warn("the session was lost; joining again", "ring", a.r.cfg.Name, "member", a.r.cfg.Member)
		a.r.anchor.Store(nil)
		_ = a.session.Close(ctx) // it has ended
		a.session, a.lease = nil, nil
	}
	began, err := a.r.announce(ctx, true)
	if errors.Is(err, ErrFenced) {
		return permanent{err}
	}
	if err != nil {
		return err
	}
	a.session, a.lease, a.start = began.session, newLease(began.session, false), began.version
	return nil
}

// again handles a store that has another announcement than this member's: of a newer start, or none
// since it went back.
func (a *anchorRing) again(ctx context.Context, now registry.Entry) error {
	if now.Version != "" {
		var by memberDoc
		if err := decode(now, &by); err != nil {
			return a.unreadable(err)
		}
		if by.Incarnation != a.r.cfg.Incarnation {
			return permanent{a.r.replaced(by)}
		}
	}
	version, err := a.r.tell(ctx, a.session, true)
	if errors.Is(err, ErrFenced) {
		return permanent{err}
	}
	a.start = version
	return err
}

// unreadable withdraws the rights when the stored anchor can't be understood: then the owners of
// keys are unknown. A store that does not answer changes nothing.
func (a *anchorRing) unreadable(err error) error {
	if errors.Is(err, registry.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, registry.ErrClosed) {
		return err
	}
	a.r.anchor.Store(nil)
	return err
}

// step shows what was read, and returns the write that is due; nil: none, look again after wait.
func (a *anchorRing) step(st *reading) (txn *registry.Txn, wait time.Duration, err error) {
	cfg := &a.r.cfg
	me, there := st.members[cfg.Member]
	other := there && me.Incarnation != cfg.Incarnation
	if other && a.joined {
		return nil, 0, permanent{a.r.replaced(me)}
	}
	if other || !there || st.entries[cfg.Member].Session != a.session.ID() {
		txn, err = a.enter(st)
		return txn, 0, err
	}
	a.joined = true
	a.show(st)
	next, err := st.doc.next(st.live(), cfg.Member, a.seen, st.now())
	if err != nil {
		return nil, 0, err
	}
	if next == st.doc {
		a.stale = ""
		return nil, sweep, nil
	}
	if wait := a.waitForTurn(st); wait > 0 {
		return nil, wait, nil
	}
	return a.write(st, next), 0, nil
}

// show publishes the anchor that was read. This member's entry was in the same reading, so its
// session was alive then.
func (a *anchorRing) show(st *reading) {
	if st.doc == nil || st.doc.Epoch < a.seen {
		return // a store that went back; the anchor is about to be written again
	}
	a.seen = st.doc.Epoch
	if p := a.r.anchor.Load(); st.doc.Members[a.r.cfg.Member] != a.r.cfg.Incarnation {
		a.r.anchor.Store(nil)
	} else if p == nil || p.lease != a.lease || p.epoch != st.doc.Epoch {
		a.r.anchor.Store(&right{lease: a.lease, epoch: st.doc.Epoch, anchor: st.doc.Anchor})
	}
	a.r.show(st.view(a.r.cfg.Name))
	if a.r.anchor.Load() != nil {
		a.r.settle()
	}
}

// waitForTurn spares the store the same write from all members: they take turns in the order of
// their names. A member that is missing itself, or that saw the store go back, need not wait.
func (a *anchorRing) waitForTurn(st *reading) time.Duration {
	if st.doc == nil || st.doc.Members[a.r.cfg.Member] != a.r.cfg.Incarnation || st.doc.Epoch < a.seen {
		return 0
	}
	if a.stale != st.docVersion {
		a.stale, a.staleFrom = st.docVersion, time.Now()
	}
	rank := 0
	for id := range st.members {
		if id < a.r.cfg.Member {
			rank++
		}
	}
	return time.Until(a.staleFrom.Add(time.Duration(min(rank, 40)) * turn))
}

// enter writes this member's entry, bound to its session, and the anchor with it.
func (a *anchorRing) enter(st *reading) (*registry.Txn, error) {
	cfg := &a.r.cfg
	live := st.live()
	live[cfg.Member] = cfg.Incarnation
	next, err := st.doc.next(live, cfg.Member, a.seen, st.now())
	if err != nil {
		return nil, permanent{fmt.Errorf("ring %q: %w", cfg.Name, err)}
	}
	if size := len(registry.Encode(next)); size > maxAnchorBytes {
		return nil, permanent{fmt.Errorf("ring %q: with %d members and this one its document would have %d bytes, and at most %d are allowed; use shorter IDs, or several rings: %w",
			cfg.Name, len(next.Members)-1, size, maxAnchorBytes, ErrInvalid)}
	}
	t := a.write(st, next)
	key := a.r.keys.member(cfg.Member)
	t.Checks = append(t.Checks, registry.Check{Key: key, Version: st.entries[cfg.Member].Version},
		registry.Check{Key: a.r.keys.meta(), Version: st.metaVersion}, registry.Check{Key: a.r.keys.start(cfg.Member), Version: a.start})
	t.Puts = append(t.Puts, registry.Put{Key: key, Value: registry.Encode(a.r.me), Session: a.session.ID()})
	return t, nil
}

// write replaces the anchor that was read. The members that it leaves out are still gone when it is
// applied: a member's entry is made only together with the anchor, so the version of the anchor
// stands for all of them. The transaction is as small for a thousand members as for one: stores take
// only so many checks in one.
func (a *anchorRing) write(st *reading, next *anchorDoc) *registry.Txn {
	return &registry.Txn{
		Checks: []registry.Check{{Key: a.r.keys.anchor(), Version: st.docVersion}},
		Puts:   []registry.Put{{Key: a.r.keys.anchor(), Value: registry.Encode(next)}},
	}
}

// leave takes this member out of the anchor, answers for its keys until the others have surely
// heard of it, and ends the session.
func (a *anchorRing) leave(ctx context.Context) error {
	defer a.r.anchor.Store(nil)
	if a.session == nil {
		return nil
	}
	patient, cancel := context.WithTimeout(ctx, a.r.cfg.Drain+2*max(a.r.cfg.TTL, time.Second))
	defer cancel()
	err := a.withdraw(patient)
	bounded, cancel := a.r.bound(context.WithoutCancel(ctx))
	defer cancel()
	if e := a.session.Close(bounded); e != nil && err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("ring %q: member %q could not say goodbye; it is gone for the others when its session ends: %w", a.r.cfg.Name, a.r.cfg.Member, err)
	}
	return nil
}

func (a *anchorRing) withdraw(ctx context.Context) error {
	cfg := &a.r.cfg
	var unanswered time.Time // when the last try of unknown outcome began
	for st := a.last; ; st = nil {
		var err error
		if st == nil {
			bounded, cancel := a.r.bound(ctx)
			st, err = read(bounded, cfg.Registry, cfg.Name)
			cancel()
			if err != nil {
				return err
			}
		}
		mine := st.members[cfg.Member]
		listed := st.doc != nil && st.doc.Members[cfg.Member] == cfg.Incarnation
		entry := mine.Incarnation == cfg.Incarnation
		if st.meta == nil || !entry && !listed {
			if st == a.last {
				continue // it may have got in since
			}
			if !unanswered.IsZero() && mine.Incarnation == "" {
				a.left(ctx, unanswered, st) // that try was applied
			}
			return nil // or deleted, fenced, or never in
		}
		live := st.live()
		if entry {
			delete(live, cfg.Member)
		}
		next, err := st.doc.next(live, cfg.Member, a.seen, st.now())
		if err != nil {
			return err
		}
		t := a.write(st, next)
		key := a.r.keys.member(cfg.Member)
		t.Checks = append(t.Checks, registry.Check{Key: key, Version: st.entries[cfg.Member].Version})
		if entry {
			t.Deletes = append(t.Deletes, key)
		}
		began := time.Now()
		bounded, cancel := a.r.bound(ctx)
		_, err = cfg.Registry.Txn(bounded, *t)
		cancel()
		switch {
		case errors.Is(err, registry.ErrUnknown):
			unanswered = began
			continue
		case errors.Is(err, registry.ErrConflict):
			continue
		case err != nil:
			return err
		}
		a.left(ctx, began, &reading{doc: next, members: st.members})
		return nil
	}
}

// left completes a leave that began then; st is the ring that it left behind. It goes on answering for a while, unless no
// other member is left.
func (a *anchorRing) left(ctx context.Context, began time.Time, st *reading) {
	if st.doc == nil {
		return // it was deleted since
	}
	a.r.show(st.view(a.r.cfg.Name))
	left := time.Until(began.Add(a.r.cfg.Drain))
	p := a.r.anchor.Load()
	if len(st.doc.Members) == 0 || left <= 0 || p == nil {
		return
	}
	a.r.anchor.Store(&right{lease: p.lease.ending(left), epoch: p.epoch, anchor: p.anchor})
	select {
	case <-time.After(left):
	case <-a.session.Done():
	case <-ctx.Done():
	}
}
