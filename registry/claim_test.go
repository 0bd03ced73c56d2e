package registry_test

import (
	"testing"

	"github.com/ringfence/ringfence/registry"
)

func TestClaimMovesTheEpochAndFencesTheFormerOwner(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	ctx := t.Context()
	ha, a, _ := f.join("a", "a1")
	_, b, _ := f.join("b", "b1")
	first, err := a.Claim(ctx, 0, "a", "a1", 0, "start", nil)
	must(t, err)
	if first.Epoch <= 0 {
		t.Fatalf("first epoch %d, expected one above 0", first.Epoch)
	}
	must(t, a.Checkpoint(ctx, first, at(10)))

	_, err = b.Claim(ctx, 0, "b", "b1", first.Epoch, "steal", nil)
	wantErr(t, err, registry.ErrConflict) // a is alive
	_, err = b.Claim(ctx, 0, "b", "b1", 0, "stale", nil)
	wantErr(t, err, registry.ErrConflict)

	ha.Kill()
	second, err := b.Claim(ctx, 0, "b", "b1", first.Epoch, "a died", nil)
	must(t, err)
	if second.Epoch <= first.Epoch {
		t.Fatalf("second epoch %d, expected one above %d", second.Epoch, first.Epoch)
	}
	wantErr(t, f.g.Checkpoint(ctx, first, at(11)), registry.ErrFenced)
	if n := nextOf(t, f.g, 0); n != 10 {
		t.Fatalf("checkpoint %d after a fenced write, expected 10", n)
	}
	wantErr(t, f.g.CheckpointAt(ctx, 0, "a", first.Epoch, at(12)), registry.ErrFenced)
	must(t, f.g.CheckpointAt(ctx, 0, "b", second.Epoch, at(12)))
}

func TestAForcedClaimTakesAUnitFromALiveOwner(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	ctx := t.Context()
	_, a, _ := f.join("a", "a1")
	_, b, _ := f.join("b", "b1")
	old, err := a.Claim(ctx, 0, "a", "a1", 0, "", nil)
	must(t, err)
	_, err = b.Claim(ctx, 0, "b", "b1", old.Epoch, "deadline", &registry.ClaimOptions{Force: true})
	must(t, err)
	wantErr(t, a.Checkpoint(ctx, old, at(1)), registry.ErrFenced)
}

func TestWhoIsNoMemberCannotClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	_, _, s := f.join("a", "a1")
	must(t, s.Close(t.Context()))
	_, err := f.g.Claim(t.Context(), 0, "a", "a1", 0, "", nil)
	wantErr(t, err, registry.ErrFenced)
}

func TestTwoProcessesWithOneMemberID(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	ctx := t.Context()
	_, a, _ := f.join("a", "a1")
	grant, err := a.Claim(ctx, 0, "a", "a1", 0, "", nil)
	must(t, err)
	s, err := f.h.OpenSession(ctx, ttl)
	must(t, err)
	again := registry.Member{ID: "a", Incarnation: "a2"}
	_, err = f.g.Register(ctx, s, again, nil)
	wantErr(t, err, registry.ErrExists)

	_, err = f.g.Register(ctx, s, again, &registry.RegisterOptions{Replace: true})
	must(t, err)
	_, err = f.g.Claim(ctx, 0, "a", "a2", grant.Epoch, "restart", nil)
	must(t, err)
	wantErr(t, a.Checkpoint(ctx, grant, at(1)), registry.ErrFenced)
	_, err = a.Register(ctx, s, registry.Member{ID: "a", Incarnation: "a1"}, nil)
	wantErr(t, err, registry.ErrExists) // the older one stays out
}

func TestHandoffMovesCheckpointAndOwnerTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	ctx := t.Context()
	_, a, _ := f.join("a", "a1")
	hb, _, _ := f.join("b", "b1")
	grant, err := a.Claim(ctx, 0, "a", "a1", 0, "", nil)
	must(t, err)
	wantErr(t, a.Handoff(ctx, grant, at(5), "b", "other", ""), registry.ErrNotFound)
	must(t, a.Handoff(ctx, grant, at(7), "b", "b1", "handoff from a"))
	u, err := f.g.Unit(ctx, 0)
	must(t, err)
	if u.Owner.Member != "b" || u.Owner.Epoch <= grant.Epoch || u.Owner.After != grant.Epoch || u.Checkpoint.Positions[0].Next != 7 {
		t.Fatalf("after the handoff: %+v, checkpoint %+v", u.Owner, u.Checkpoint)
	}
	wantErr(t, a.Checkpoint(ctx, grant, at(8)), registry.ErrFenced)
	mine, ok := u.Grant("b", "b1")
	if !ok {
		t.Fatal("the new owner finds no grant")
	}
	must(t, f.g.Checkpoint(ctx, mine, at(9)))

	hb.Kill()
	wantErr(t, f.g.Handoff(ctx, mine, at(9), "b", "b1", ""), registry.ErrNotFound)
}

func TestClaimsOfStaleStateFallBackToTheExpectedEpoch(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	ctx := t.Context()
	_, a, s := f.join("a", "a1")
	_, b, _ := f.join("b", "b1")
	st, err := a.Load(ctx, false)
	must(t, err)
	_, err = a.Register(ctx, s, registry.Member{ID: "a", Incarnation: "a1", Weight: 2}, nil) // moves the member's version
	must(t, err)
	_, err = b.Claim(ctx, 1, "b", "b1", 0, "", nil)
	must(t, err)
	res, err := a.Claims(ctx, st, []int{0, 1}, "a", "a1", "", nil)
	must(t, err)
	must(t, res[0].Err)
	wantErr(t, res[1].Err, registry.ErrConflict)
}

func TestOfTwoClaimsThatSawTheSameEpochOneWins(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	ctx := t.Context()
	ha, a, _ := f.join("a", "a1")
	_, b, _ := f.join("b", "b1")
	var theirs registry.Grant
	once(t, ha, func() {
		var err error
		theirs, err = b.Claim(ctx, 0, "b", "b1", 0, "", nil)
		must(t, err)
	})
	_, err := a.Claim(ctx, 0, "a", "a1", 0, "", nil)
	wantErr(t, err, registry.ErrConflict)
	must(t, b.Checkpoint(ctx, theirs, at(1)))
}

func TestAnOwnerThatComesBackBeforeTheClaimKeepsItsUnit(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	ctx := t.Context()
	_, a, s := f.join("a", "a1")
	grant, err := a.Claim(ctx, 0, "a", "a1", 0, "", nil)
	must(t, err)
	must(t, s.Close(ctx))
	hb, b, _ := f.join("b", "b1")
	once(t, hb, func() {
		again, err := f.h.OpenSession(ctx, ttl)
		must(t, err)
		_, err = a.Register(ctx, again, registry.Member{ID: "a", Incarnation: "a1"}, nil)
		must(t, err)
	})
	_, err = b.Claim(ctx, 0, "b", "b1", grant.Epoch, "a died", nil)
	wantErr(t, err, registry.ErrConflict)
	must(t, a.Checkpoint(ctx, grant, at(1)))
}
