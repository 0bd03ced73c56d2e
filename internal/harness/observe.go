package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/registry/driver"
)

// observer stands between one member and its registry and tells the history what the store
// answered: which member got a unit at which epoch, and which checkpoints it accepted or refused. So the
// history does not depend on what the member believes.
type observer struct {
	driver.Registry // the store; what is not observed goes straight through
	group           *protocol.Group
	tell            func(history.Event)
	pass            func() // called before each call; it waits while the member is frozen

	mu          sync.Mutex
	member      string
	incarnation string             // of this member, once it is registered
	owners      map[tenure]string  // incarnations that were seen to own a unit at an epoch
	known       map[tenure]bool    // the history has been told of that owner
	last        map[int]driver.Txn // by unit: the last checkpoint that the store accepted
}

// tenure is one epoch of a unit.
type tenure struct {
	unit  int
	epoch int64
}

func newObserver(inner driver.Registry, group *protocol.Group, member string, tell func(history.Event), pass func()) *observer {
	return &observer{
		Registry: inner, group: group, tell: tell, pass: pass, member: member,
		owners: make(map[tenure]string), known: make(map[tenure]bool), last: make(map[int]driver.Txn),
	}
}

// Apply passes the transactions on and tells what became of them. Where the store fails before the
// history can be told, the member does not get the answer either: it counts as lost.
func (o *observer) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	o.pass()
	for i := range txns {
		o.joins(&txns[i])
	}
	began := history.Now()
	results, err := o.Registry.Apply(ctx, txns)
	for i := range results {
		if untold := o.told(ctx, began, &txns[i], &results[i]); untold != nil {
			results[i] = driver.Result{Err: fmt.Errorf("%w: %w", untold, driver.ErrUnknown)}
		}
	}
	return results, err
}

// OpenSession tells when a member that had one goes on with another.
func (o *observer) OpenSession(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	o.pass()
	o.mu.Lock()
	incarnation := o.incarnation
	o.mu.Unlock()
	session, err := o.Registry.OpenSession(ctx, ttl)
	if err == nil && incarnation != "" {
		o.tell(history.Event{Kind: history.Rejoined, Member: o.member, Incarnation: incarnation})
	}
	return session, err
}

// joins notes the incarnation that is about to join: units may be handed to it before the answer.
func (o *observer) joins(t *driver.Txn) {
	for _, p := range t.Puts {
		if p.Key == o.group.MemberKey(o.member) {
			var m protocol.Member
			_ = json.Unmarshal(p.Value, &m) // it was encoded a moment ago
			o.mu.Lock()
			o.incarnation = m.Incarnation
			o.mu.Unlock()
		}
	}
}

// List notes the units that others have handed to this member.
func (o *observer) List(ctx context.Context, prefix string) (driver.Snapshot, error) {
	o.pass()
	began := history.Now()
	snap, err := o.Registry.List(ctx, prefix)
	for _, e := range snap.Entries {
		unit, ok := o.unitOf(e.Key, "groups/"+o.group.Name()+"/owners/")
		if !ok {
			continue
		}
		var owner protocol.Owner
		if json.Unmarshal(e.Value, &owner) != nil || !o.isNews(unit, owner) {
			continue
		}
		if err := o.owned(ctx, began, unit, &owner, nil); err != nil {
			return driver.Snapshot{}, err
		}
	}
	return snap, err
}

// told turns one transaction and its result into events. The error is that of the store.
func (o *observer) told(ctx context.Context, began int64, t *driver.Txn, res *driver.Result) error {
	var unit int
	var owner *protocol.Owner
	var checkpoint *protocol.Checkpoint
	for _, p := range t.Puts {
		if n, ok := o.unitOf(p.Key, "groups/"+o.group.Name()+"/owners/"); ok {
			unit, owner = n, new(protocol.Owner)
			_ = json.Unmarshal(p.Value, owner) // it was encoded a moment ago
		}
		if n, ok := o.unitOf(p.Key, "checkpoints/"+o.group.Name()+"/"); ok {
			unit, checkpoint = n, new(protocol.Checkpoint)
			_ = json.Unmarshal(p.Value, checkpoint)
		}
	}
	if checkpoint != nil && (owner == nil || owner.Member != checkpoint.Member || owner.Epoch != checkpoint.Epoch) {
		o.committed(began, unit, checkpoint, t, res, owner != nil)
	}
	if owner != nil && res.Err == nil {
		return o.owned(ctx, began, unit, owner, checkpoint)
	}
	return nil
}

// committed tells the answer to a checkpoint. One that goes with a new owner happened when it was
// asked for, as far as the history is concerned: the new owner may be at work before the answer.
func (o *observer) committed(began int64, unit int, c *protocol.Checkpoint, t *driver.Txn, res *driver.Result, handoff bool) {
	e := history.Event{
		Kind: history.Committed, Began: began, At: history.Now(), Member: o.member,
		Unit: unit, Epoch: c.Epoch, Positions: c.Positions,
	}
	o.mu.Lock()
	e.Incarnation = o.owners[tenure{unit, c.Epoch}]
	switch {
	case res.Err == nil && !handoff:
		o.last[unit] = *t
	case res.Err == nil:
		delete(o.last, unit) // given away
	}
	o.mu.Unlock()
	switch {
	case res.Err == nil:
		if handoff {
			e.At = began
		}
	case errors.Is(res.Err, driver.ErrFenced), errors.Is(res.Err, driver.ErrConflict) && o.isFence(t, res, unit):
		e.Outcome = history.Refused
	case errors.Is(res.Err, driver.ErrUnknown):
		e.Outcome = history.Unknown
	default:
		return
	}
	o.tell(e)
}

// isFence says whether the check that failed was that on the owner.
func (o *observer) isFence(t *driver.Txn, res *driver.Result, unit int) bool {
	return res.Failed < len(t.Checks) && t.Checks[res.Failed].Key == o.group.OwnerKey(unit)
}

// isClean says whether a unit was given away with all that its handlers finished. One that went without,
// as its time to drain was up, says so in its reason.
func isClean(next *protocol.Owner) bool {
	return next.Member != "" && strings.HasPrefix(next.Reason, "handoff from ")
}

func (o *observer) owned(ctx context.Context, began int64, unit int, owner *protocol.Owner, last *protocol.Checkpoint) error {
	e := history.Event{
		Kind: history.Owned, Began: began, Member: owner.Member, Incarnation: owner.Incarnation,
		Unit: unit, Epoch: owner.Epoch, After: owner.After, Reason: owner.Reason, Handoff: isClean(owner),
	}
	if owner.Member != o.member { // given away by its owner: as of the question, as for the checkpoint
		e.At = began + 1
	}
	switch {
	case last != nil:
		e.Positions = last.Positions
	case owner.Member != o.member:
		return nil // the new owner may have moved the checkpoint by now; it tells where it begins
	default:
		var err error
		if e.Positions, err = o.positions(ctx, unit, owner.Epoch); err != nil {
			return err
		}
	}
	o.tell(e)
	o.knows(unit, *owner)
	return nil
}

// isNews says whether this member owns the unit and the history has not been told. Two that ask
// at once may both tell: better twice than after the member began to work.
func (o *observer) isNews(unit int, owner protocol.Owner) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := tenure{unit, owner.Epoch}
	o.owners[at] = owner.Incarnation
	return owner.Member == o.member && owner.Incarnation == o.incarnation && !o.known[at]
}

func (o *observer) knows(unit int, owner protocol.Owner) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := tenure{unit, owner.Epoch}
	o.owners[at], o.known[at] = owner.Incarnation, true
}

// at names the incarnation that owns a unit at an epoch.
func (o *observer) at(unit int, epoch int64) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.owners[tenure{unit, epoch}]
}

// positions reads where the owner of a unit at an epoch begins. It has not begun, and those before
// it are fenced: only one after it may have moved the checkpoint, and then it does not get the unit.
func (o *observer) positions(ctx context.Context, unit int, epoch int64) ([]protocol.Position, error) {
	snap, err := o.Registry.List(ctx, o.group.CheckpointKey(unit))
	if err != nil || len(snap.Entries) == 0 {
		return nil, err
	}
	var c protocol.Checkpoint
	_ = json.Unmarshal(snap.Entries[0].Value, &c) // damage shows as a checkpoint that went back
	if c.Epoch > epoch {
		return nil, fmt.Errorf("unit %d is at epoch %d by now, and was at %d when it was looked at: %w", unit, c.Epoch, epoch, driver.ErrUnavailable)
	}
	return c.Positions, nil
}

// haunt does what a stopped process does that knows nothing of the time that went by: it writes
// the checkpoints of the units that it believes to own, under the epochs that it had. While the
// store does not say of one what became of it, it writes again.
func (o *observer) haunt(ctx context.Context) {
	o.mu.Lock()
	txns := slices.Collect(maps.Values(o.last))
	o.mu.Unlock()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for len(txns) > 0 {
		results, err := o.Apply(ctx, txns) // the answers go to the history
		if err == nil && slices.ContainsFunc(results, func(r driver.Result) bool { return !errors.Is(r.Err, driver.ErrUnknown) }) {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

func (o *observer) unitOf(key, prefix string) (int, bool) {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(rest)
	return n, err == nil
}
