package registry_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

func TestMetaOfAGroupIsFixedAndBothSidesAreNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 4)
	_, err := f.g.EnsureMeta(t.Context(), registry.Meta{Topic: "payments", Units: 4})
	must(t, err)
	_, err = f.g.EnsureMeta(t.Context(), registry.Meta{Topic: "orders", Units: 8})
	wantErr(t, err, registry.ErrExists)
	for _, part := range []string{"payments", "orders", "4", "8"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the message %q does not name %q", err, part)
		}
	}
}

func TestOutcomesThatWereLostAreRecognised(t *testing.T) {
	t.Parallel()
	for _, lose := range []struct {
		name string
		f    func(*memregistry.Handle)
	}{
		{"reply", func(h *memregistry.Handle) { h.LoseReplies(1) }},
		{"request", func(h *memregistry.Handle) { h.LoseRequests(1) }},
	} {
		t.Run(lose.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 3)
			ctx := t.Context()
			h, a, s := f.join("a", "a1")
			f.join("b", "b1")
			lose.f(h)
			_, err := a.Register(ctx, s, registry.Member{ID: "a", Incarnation: "a1", Draining: true}, nil)
			must(t, err)
			lose.f(h)
			grant, err := a.Claim(ctx, 0, "a", "a1", 0, "", nil)
			must(t, err)
			lose.f(h)
			must(t, a.Checkpoint(ctx, grant, at(3)))
			var none registry.Version
			lose.f(h)
			other, err := a.Claim(ctx, 1, "a", "a1", 0, "", nil)
			must(t, err)
			lose.f(h)
			res, err := a.Checkpoints(ctx, []registry.CheckpointWrite{{Grant: other, Checkpoint: at(1), After: &none}})
			must(t, err)
			must(t, res[0].Err)
			lose.f(h)
			must(t, a.Handoff(ctx, grant, at(4), "b", "b1", "go"))
			must(t, a.Handoff(ctx, grant, at(4), "b", "b1", "go")) // the same call once more
			lose.f(h)
			must(t, a.Release(ctx, other, nil, "leave"))
			lose.f(h)
			must(t, a.Seek(ctx, 2, at(42), "seek"))
			u, err := a.Unit(ctx, 2)
			must(t, err)
			if u.Owner.Epoch <= 0 || u.Owner.After != 0 || nextOf(t, a, 2) != 42 {
				t.Fatalf("after one seek: epoch %d, next %d", u.Owner.Epoch, nextOf(t, a, 2))
			}
			if n := nextOf(t, a, 0); n != 4 {
				t.Fatalf("checkpoint %d, expected 4", n)
			}
			lose.f(h)
			must(t, a.Pause(ctx, "someone"))
		})
	}
}

func TestAStoreThatStaysSilentIsUnknownAndTheSameCallFindsOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	ctx := t.Context()
	h, a, _ := f.join("a", "a1")
	h.LoseReplies(100)
	_, err := a.Claim(ctx, 0, "a", "a1", 0, "", nil)
	if err != nil { // the retry met its own write or gave up: both are honest
		wantErr(t, err, registry.ErrUnknown)
	}
	h.LoseReplies(0)
	grant, err := a.Claim(ctx, 0, "a", "a1", 0, "", nil)
	must(t, err)
	if u, err := a.Unit(ctx, 0); err != nil || u.Owner.After != 0 || u.Owner.Epoch != grant.Epoch {
		t.Fatalf("epoch %d after a lost reply, and the owner is %+v, %v; expected the first one", grant.Epoch, u.Owner, err)
	}
	must(t, a.Checkpoint(ctx, grant, at(1)))
}

func TestALateCheckpointCannotUndoANewerOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	ctx := t.Context()
	_, a, _ := f.join("a", "a1")
	grant, err := a.Claim(ctx, 0, "a", "a1", 0, "", nil)
	must(t, err)
	var none registry.Version
	late := registry.CheckpointWrite{Grant: grant, Checkpoint: at(1), After: &none}
	newer := registry.CheckpointWrite{Grant: grant, Checkpoint: at(2), After: &none}
	res, err := a.Checkpoints(ctx, []registry.CheckpointWrite{newer, late})
	must(t, err)
	must(t, res[0].Err)
	wantErr(t, res[1].Err, registry.ErrConflict)
	if n := nextOf(t, a, 0); n != 2 {
		t.Fatalf("checkpoint %d, expected 2", n)
	}
}

func TestBatchedCheckpointsFailOneByOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	ctx := t.Context()
	_, a, _ := f.join("a", "a1")
	st, err := a.Load(ctx, false)
	must(t, err)
	claims, err := a.Claims(ctx, st, []int{0, 1, 2, 9}, "a", "a1", "start", nil)
	must(t, err)
	wantErr(t, claims[3].Err, registry.ErrInvalid)
	must(t, f.g.Seek(ctx, 1, at(100), "seek to 100"))
	huge := at(1)
	huge.Positions[0].Done = make([]registry.Range, registry.MaxValueBytes/4)
	res, err := a.Checkpoints(ctx, []registry.CheckpointWrite{
		{Grant: claims[0].Grant, Checkpoint: at(1)}, {Grant: claims[1].Grant, Checkpoint: at(2)},
		{Grant: claims[2].Grant, Checkpoint: huge}, {Grant: registry.Grant{}, Checkpoint: at(1)},
	})
	must(t, err)
	must(t, res[0].Err)
	wantErr(t, res[1].Err, registry.ErrFenced)
	wantErr(t, res[2].Err, registry.ErrInvalid)
	wantErr(t, res[3].Err, registry.ErrInvalid)
	if n := nextOf(t, a, 1); n != 100 {
		t.Fatalf("a checkpoint in flight undid the seek: %d", n)
	}
}

func TestUnitsBySituation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 4)
	ctx := t.Context()
	ha, a, _ := f.join("a", "a1")
	_, b, _ := f.join("b", "b1")
	st, err := a.Load(ctx, false)
	must(t, err)
	_, err = a.Claims(ctx, st, []int{0, 1}, "a", "a1", "", nil)
	must(t, err)
	grant, err := b.Claim(ctx, 2, "b", "b1", 0, "", nil)
	must(t, err)
	ha.Kill()
	check := func(what string, got []registry.Unit, err error, want ...int) {
		t.Helper()
		must(t, err)
		if !slices.Equal(numbers(got), want) {
			t.Errorf("%s: %v, expected %v", what, numbers(got), want)
		}
	}
	got, err := f.g.Unowned(ctx)
	check("unowned", got, err, 3)
	got, err = f.g.OwnedBy(ctx, "b")
	check("owned by b", got, err, 2)
	got, err = f.g.Expired(ctx)
	check("expired", got, err, 0, 1)
	members, err := f.g.ActiveMembers(ctx)
	must(t, err)
	if len(members) != 1 || members[0].ID != "b" {
		t.Errorf("active members: %+v", members)
	}
	done, err := f.g.ReleaseAll(ctx, "a", "a1", "a died")
	must(t, err)
	if !slices.Equal(done, []int{0, 1}) {
		t.Errorf("released %v", done)
	}
	last := at(6)
	must(t, b.Release(ctx, grant, &last, "leaving"))
	wantErr(t, b.Release(ctx, grant, &last, "again, otherwise"), registry.ErrFenced)
	got, err = f.g.Unowned(ctx)
	check("unowned at the end", got, err, 0, 1, 2, 3)
	if n := nextOf(t, f.g, 2); n != 6 {
		t.Errorf("checkpoint after release %d, expected 6", n)
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 4)
	ctx := t.Context()
	must(t, f.g.Pause(ctx, "ann", 3, 1, 3))
	must(t, f.g.Pause(ctx, "bob"))
	wantErr(t, f.g.Pause(ctx, "bob", 4), registry.ErrInvalid)
	st, err := f.g.Load(ctx, false)
	must(t, err)
	if !st.Control.Paused || !slices.Equal(st.Control.PausedUnits, []int{1, 3}) || st.Control.By != "bob" {
		t.Fatalf("control %+v", st.Control)
	}
	must(t, f.g.Resume(ctx, "bob", 1))
	must(t, f.g.Resume(ctx, "bob"))
	st, err = f.g.Load(ctx, false)
	must(t, err)
	if st.Control.Paused || len(st.Control.PausedUnits) != 0 {
		t.Fatalf("control after resume %+v", st.Control)
	}
}

// Between the try whose reply was lost and the next, somebody else resumes the group.
func TestAPauseWhoseReplyWasLostDoesNotUndoALaterResume(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 4)
	h := f.store.Open()
	defer h.Close()
	tries := 0
	h.OnApply(func([]string) error {
		if tries++; tries == 2 {
			must(t, f.g.Resume(t.Context(), "bob"))
		}
		return nil
	})
	h.LoseReplies(1)
	wantErr(t, groupOf(t, h.Registry).Pause(t.Context(), "ann"), registry.ErrUnknown)
	st, err := f.g.Load(t.Context(), false)
	must(t, err)
	if tries != 2 || st.Control.Paused || st.Control.By != "bob" {
		t.Fatalf("after %d tries: control %+v", tries, st.Control)
	}
}

func TestDeletedGroupsLeaveNothingAndOldGrantsAreFenced(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 200)
	ctx := t.Context()
	_, a, s := f.join("a", "a1")
	st, err := a.Load(ctx, false)
	must(t, err)
	all := make([]int, 200)
	for i := range all {
		all[i] = i
	}
	claims, err := a.Claims(ctx, st, all, "a", "a1", "", nil)
	must(t, err)
	must(t, a.Checkpoint(ctx, claims[7].Grant, at(7)))
	wantErr(t, f.g.Delete(ctx), registry.ErrConflict)
	must(t, s.Close(ctx))
	must(t, f.g.Delete(ctx))
	must(t, f.g.Delete(ctx))
	snap, err := f.h.List(ctx, "")
	must(t, err)
	if len(snap.Entries) != 0 {
		t.Fatalf("%d entries are left, the first %q", len(snap.Entries), snap.Entries[0].Key)
	}
	wantErr(t, a.Checkpoint(ctx, claims[7].Grant, at(8)), registry.ErrFenced)
	_, err = f.g.Units(ctx)
	wantErr(t, err, registry.ErrNotFound)
}

func TestADeletionCutShortIsFinishedBeforeTheGroupIsMadeAnew(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	ctx := t.Context()
	h, a, s := f.join("a", "a1")
	_, err := a.Claim(ctx, 0, "a", "a1", 0, "", nil)
	must(t, err)
	must(t, s.Close(ctx))
	calls := 0
	h.OnApply(func([]string) error {
		if calls++; calls > 1 {
			return registry.ErrUnavailable
		}
		return nil
	})
	wantErr(t, a.Delete(ctx), registry.ErrUnavailable)
	s2, err := f.h.OpenSession(ctx, ttl)
	must(t, err)
	_, err = f.g.Register(ctx, s2, registry.Member{ID: "b", Incarnation: "b1"}, nil)
	wantErr(t, err, registry.ErrNotFound)
	names, err := f.h.ListGroups(ctx)
	must(t, err)
	if len(names) != 0 {
		t.Fatalf("groups %v, expected none", names)
	}
	_, err = f.g.EnsureMeta(ctx, registry.Meta{Topic: "orders", Units: 5})
	must(t, err)
	units, err := f.g.Units(ctx)
	must(t, err)
	if len(units) != 5 || units[0].Owner.Epoch != 0 {
		t.Fatalf("%d units, the first %+v: the old group shows through", len(units), units[0].Owner)
	}
	if names, err = f.h.ListGroups(ctx); err != nil || !slices.Equal(names, []string{"billing"}) {
		t.Fatalf("groups %v, %v", names, err)
	}
}

func TestAnOutageIsUnavailableAndNeverAbsence(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	f.store.SetOutage(true)
	_, err := f.g.Unit(t.Context(), 0)
	wantErr(t, err, registry.ErrUnavailable)
	_, err = f.g.EnsureMeta(t.Context(), registry.Meta{Topic: "x", Units: 1})
	wantErr(t, err, registry.ErrUnavailable)
	f.store.SetOutage(false)
	_, err = f.g.Unit(t.Context(), 0)
	must(t, err)
}

func TestAFrozenMemberExpiresAndItsNextRegistrationIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		h, a, s := f.join("a", "a1")
		_, err := a.Claim(ctx, 0, "a", "a1", 0, "", nil)
		must(t, err)
		signals, err := f.h.Watch(ctx, f.g.WatchPrefix())
		must(t, err)
		time.Sleep(10 * ttl)
		if u, _ := f.g.Expired(ctx); len(u) != 0 {
			t.Fatal("a member that renews expired")
		}
		h.Freeze()
		time.Sleep(ttl * 11 / 10)
		select {
		case <-signals:
		default:
			t.Fatal("no signal at the end of a session")
		}
		if u, _ := f.g.Expired(ctx); len(u) != 1 {
			t.Fatalf("expired units %v, expected one", u)
		}
		_, err = a.Register(ctx, s, registry.Member{ID: "a", Incarnation: "a1"}, nil)
		wantErr(t, err, registry.ErrFenced)
		h.Thaw()
		<-s.Done()
		h.Close()
		f.h.Close()
	})
}
