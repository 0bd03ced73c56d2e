package protocol_test

import (
	"errors"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/registry"
)

// send applies one transaction as it was built, however late, and returns its fate.
func (f *fixture) send(t registry.Txn) error {
	f.t.Helper()
	_, err := f.h.Txn(f.t.Context(), t)
	return err
}

// unit reads a unit.
func (f *fixture) unit(n int) protocol.Unit {
	f.t.Helper()
	u, err := f.g.Unit(f.t.Context(), n)
	must(f.t, err)
	return u
}

// self is the version of a member's entry; "": there is none.
func (f *fixture) self(id string) registry.Version {
	f.t.Helper()
	st, err := f.g.Load(f.t.Context(), false)
	must(f.t, err)
	_, v, _ := st.Member(id)
	return v
}

// claim is a claim of unit 0 as it is to be decided now.
func (f *fixture) claim(m *protocoltest.Member, dead string) protocol.Claim {
	f.t.Helper()
	u := f.unit(0)
	return protocol.Claim{
		Last: u.OwnerVersion, Checkpoint: u.CheckpointVersion, Self: f.self(m.ID), Dead: dead, DeadVersion: f.self(dead),
		Owner: protocol.Owner{Member: m.ID, Incarnation: m.Incarnation, Epoch: u.Owner.Epoch + 1, After: u.Owner.Epoch},
	}
}

func TestClaimMovesTheEpochAndFencesTheFormerOwner(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	ctx := t.Context()
	ha, a := f.join("a", "a1")
	_, b := f.join("b", "b1")
	first, err := a.Claim(ctx, 0, "start")
	must(t, err)
	if first.Epoch <= 0 {
		t.Fatalf("first epoch %d, expected one above 0", first.Epoch)
	}
	must(t, a.Commit(ctx, first, 10))
	_, err = b.Claim(ctx, 0, "steal")
	wantErr(t, err, registry.ErrConflict) // a is alive

	ha.Kill()
	second, err := b.Claim(ctx, 0, "a died")
	must(t, err)
	if second.Epoch <= first.Epoch {
		t.Fatalf("second epoch %d, expected one above %d", second.Epoch, first.Epoch)
	}
	wantErr(t, f.g.Commit(ctx, first, at(11), f.unit(0).CheckpointVersion), registry.ErrFenced)
	if n := nextOf(t, f.g, 0); n != 10 {
		t.Fatalf("checkpoint %d after a fenced write, expected 10", n)
	}
	must(t, b.Commit(ctx, second, 12))
}

func TestAUnitIsTakenFromALiveOwnerAndFencesIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	_, a := f.join("a", "a1")
	_, b := f.join("b", "b1")
	old, err := a.Claim(t.Context(), 0, "")
	must(t, err)
	_, err = b.Seize(t.Context(), 0, "its time is over")
	must(t, err)
	wantErr(t, a.Commit(t.Context(), old, 1), registry.ErrFenced)
}

// Each case decides on a claim of unit 0 by b, lets something happen, and sends the claim.
func TestAClaimThatCameTooLateIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dead string // the owner that was seen dead
		then func(f *fixture, a, b *protocoltest.Member, s registry.Session)
	}{
		"another has it": {"", func(f *fixture, a, _ *protocoltest.Member, _ registry.Session) {
			_, err := a.Seize(f.t.Context(), 0, "")
			must(f.t, err)
		}},
		"the checkpoint moved": {"", func(f *fixture, _, _ *protocoltest.Member, _ registry.Session) {
			f.put(f.g.CheckpointKey(0), `{"positions":[{"next":5}]}`)
		}},
		"the claimer is gone": {"", func(f *fixture, _, b *protocoltest.Member, _ registry.Session) {
			must(f.t, b.Session.Close(f.t.Context()))
		}},
		"the claimer was replaced": {"", func(f *fixture, _, _ *protocoltest.Member, _ registry.Session) {
			f.join("b", "b2")
		}},
		"the dead came back": {"a", func(f *fixture, _, _ *protocoltest.Member, s registry.Session) {
			_, err := protocoltest.Join(f.t.Context(), f.g, s, protocol.Member{ID: "a", Incarnation: "a1"})
			must(f.t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1)
			_, a := f.join("a", "a1")
			_, b := f.join("b", "b1")
			if c.dead != "" {
				_, err := a.Claim(t.Context(), 0, "")
				must(t, err)
				must(t, a.Session.Close(t.Context()))
			}
			again, err := f.h.OpenSession(t.Context(), ttl)
			must(t, err)
			late := f.g.ClaimTxn(f.claim(b, c.dead))
			c.then(f, a, b, again)
			wantErr(t, f.send(late), registry.ErrConflict)
			if o := f.unit(0).Owner; o.Member == "b" {
				t.Errorf("it was applied all the same: %+v", o)
			}
		})
	}
}

func TestOfTwoStartsUnderOneIDTheLaterFencesTheEarlier(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	ctx := t.Context()
	_, a := f.join("a", "a1")
	seen := f.self("a")
	grant, err := a.Claim(ctx, 0, "")
	must(t, err)
	_, next := f.join("a", "a2")
	_, err = next.Claim(ctx, 0, "restart")
	must(t, err)
	wantErr(t, a.Commit(ctx, grant, 1), registry.ErrFenced)
	m := protocol.Member{ID: "a", Incarnation: "a1"}
	meta, err := f.h.Get(ctx, f.g.MetaKey())
	must(t, err)
	late := f.g.JoinTxn(protocol.Join{Member: m, Session: a.Session.ID(), Seen: seen, Meta: meta.Version})
	wantErr(t, f.send(late), registry.ErrConflict) // the earlier one stays out
	wantErr(t, f.send(f.g.AnnounceTxn(m, a.Session.ID(), seen)), registry.ErrConflict)
}

func TestHandoffMovesCheckpointAndOwnerTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	ctx := t.Context()
	_, a := f.join("a", "a1")
	hb, b := f.join("b", "b1")
	grant, err := a.Claim(ctx, 0, "")
	must(t, err)
	must(t, a.Handoff(ctx, grant, 7, b, "handoff from a"))
	u := f.unit(0)
	if u.Owner.Member != "b" || u.Owner.Epoch <= grant.Epoch || u.Owner.After != grant.Epoch || u.Checkpoint.Positions[0].Next != 7 {
		t.Fatalf("after the handoff: %+v, checkpoint %+v", u.Owner, u.Checkpoint)
	}
	wantErr(t, a.Commit(ctx, grant, 8), registry.ErrFenced)
	mine, ok := u.Grant("b", "b1")
	if !ok {
		t.Fatal("the new owner finds no grant")
	}
	must(t, b.Commit(ctx, mine, 9))

	last := at(11)
	late := f.g.HandoffTxn(protocol.Handoff{
		Grant: mine, After: f.unit(0).CheckpointVersion, Last: &last, Target: f.self("b"),
		Owner: protocol.Owner{Member: "b", Incarnation: "b1", Epoch: mine.Epoch + 1, After: mine.Epoch},
	})
	hb.Kill()
	wantErr(t, f.send(late), registry.ErrConflict) // nobody is given to the dead
	must(t, a.Handoff(ctx, mine, 12, nil, "released"))
	if u := f.unit(0); u.Owner.Member != "" || u.Owner.After != mine.Epoch || u.Checkpoint.Positions[0].Next != 12 {
		t.Fatalf("after the release: %+v, checkpoint %+v", u.Owner, u.Checkpoint)
	}
	wantErr(t, a.Handoff(ctx, mine, 13, nil, "again"), registry.ErrFenced)
}

func TestALateCheckpointCannotUndoANewerOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	_, a := f.join("a", "a1")
	_, b := f.join("b", "b1")
	grant, err := a.Claim(t.Context(), 0, "")
	must(t, err)
	none := f.unit(0).CheckpointVersion
	last := at(1)
	commit := f.g.CommitTxn(grant, last, none)
	handoff := f.g.HandoffTxn(protocol.Handoff{
		Grant: grant, After: none, Last: &last, Target: f.self("b"),
		Owner: protocol.Owner{Member: b.ID, Incarnation: b.Incarnation, Epoch: grant.Epoch + 1, After: grant.Epoch},
	})
	must(t, a.Commit(t.Context(), grant, 2))
	wantErr(t, f.send(commit), registry.ErrConflict)
	wantErr(t, f.send(handoff), registry.ErrConflict)
	wantErr(t, f.g.Commit(t.Context(), grant, last, none), registry.ErrConflict)
	if n := nextOf(t, f.g, 0); n != 2 {
		t.Fatalf("checkpoint %d, expected 2", n)
	}
}

// Finished ranges that are too many to be stored are left out; the position moves all the same.
func TestACheckpointThatIsTooLargeLosesItsRangesOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	_, a := f.join("a", "a1")
	grant, err := a.Claim(t.Context(), 0, "")
	must(t, err)
	huge := at(7)
	huge.Positions[0].Done = make([]protocol.Range, registry.MaxValueBytes/4)
	must(t, f.g.Commit(t.Context(), grant, huge, f.unit(0).CheckpointVersion))
	if c := f.unit(0).Checkpoint; c.Positions[0].Next != 7 || len(c.Positions[0].Done) != 0 || c.Epoch != grant.Epoch {
		t.Errorf("stored is %+v; expected the position without ranges", c)
	}
	if len(huge.Positions[0].Done) == 0 {
		t.Error("the caller's checkpoint was changed")
	}
	wantErr(t, f.g.Commit(t.Context(), protocol.Grant{}, at(1), ""), registry.ErrInvalid)
}

// What a member decided on when there was a group, or a member, is not done when it is gone.
func TestPlansAndDocumentsOfAGroupThatIsGoneAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	ctx := t.Context()
	meta, err := f.h.Get(ctx, f.g.MetaKey())
	must(t, err)
	_, a := f.join("a", "a1")
	wantErr(t, f.send(f.g.ForgetTxn("a", meta.Version)), registry.ErrConflict) // it is there
	must(t, a.Session.Close(ctx))
	late := []registry.Txn{
		f.g.PlanTxn(protocol.Assignment{Version: 1}, "", meta.Version),
		f.g.MetaTxn(protocol.Meta{Topic: "payments", Units: 9}, meta.Version),
		f.g.ForgetTxn("a", meta.Version),
	}
	must(t, f.g.Delete(ctx))
	for _, txn := range late {
		wantErr(t, f.send(txn), registry.ErrConflict)
	}
	if keys := f.keys(); len(keys) > 0 {
		t.Errorf("of the deleted group there is %q", keys)
	}
}

// What a store knows of the epochs in which a unit was handed out: its owner's, or that of the last one, or that of its
// checkpoint where its owner can't be read.
func TestHandedOutIsTheHighestEpochOfAnOwner(t *testing.T) {
	t.Parallel()
	for want, u := range map[int64]protocol.Unit{
		0: {},
		9: {Owner: protocol.Owner{Member: "m", Epoch: 9, After: 7}, Checkpoint: &protocol.Checkpoint{Epoch: 7}},
		8: {Owner: protocol.Owner{Epoch: 9, After: 8}, Checkpoint: &protocol.Checkpoint{Epoch: 7}},
		7: {OwnerDamage: errors.New("torn"), Checkpoint: &protocol.Checkpoint{Epoch: 7}},
	} {
		if got := u.HandedOut(); got != want {
			t.Errorf("%+v was handed out in epoch %d; expected %d", u, got, want)
		}
	}
}
