package protocol_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

func TestMetaOfAGroupIsFixedAndBothSidesAreNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 4)
	_, err := f.g.EnsureMeta(t.Context(), protocol.Meta{Topic: "payments", Units: 4})
	must(t, err)
	_, err = f.g.EnsureMeta(t.Context(), protocol.Meta{Topic: "orders", Units: 8})
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
			h, m := f.join("a", "a1")
			a := m.Group
			grant, err := m.Claim(ctx, 0, "")
			must(t, err)
			lose.f(h)
			must(t, a.Commit(ctx, grant, at(4), ""))
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
			must(t, a.Grow(ctx, 4))
			lose.f(h)
			must(t, a.Pause(ctx, "someone"))
		})
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
	wantErr(t, f.g.Resume(ctx, "bob", 1), registry.ErrConflict) // it would stay paused
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
	_, a := f.join("a", "a1")
	grant, err := a.Claim(ctx, 7, "")
	must(t, err)
	must(t, a.Commit(ctx, grant, 7))
	wantErr(t, f.g.Delete(ctx), registry.ErrConflict)
	must(t, a.Session.Close(ctx))
	must(t, f.g.Delete(ctx))
	must(t, f.g.Delete(ctx))
	snap, err := f.h.List(ctx, "")
	must(t, err)
	if len(snap.Entries) != 0 {
		t.Fatalf("%d entries are left, the first %q", len(snap.Entries), snap.Entries[0].Key)
	}
	wantErr(t, a.Commit(ctx, grant, 8), registry.ErrFenced)
	_, err = f.g.Meta(ctx)
	wantErr(t, err, registry.ErrNotFound)
}

func TestADeletionCutShortIsFinishedBeforeTheGroupIsMadeAnew(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	ctx := t.Context()
	h, a := f.join("a", "a1")
	_, err := a.Claim(ctx, 0, "")
	must(t, err)
	must(t, a.Session.Close(ctx))
	calls := 0
	h.OnApply(func([]string) error {
		if calls++; calls > 1 {
			return registry.ErrUnavailable
		}
		return nil
	})
	wantErr(t, a.Group.Delete(ctx), registry.ErrUnavailable)
	s2, err := f.h.OpenSession(ctx, ttl)
	must(t, err)
	_, err = protocoltest.Join(ctx, f.g, s2, protocol.Member{ID: "b", Incarnation: "b1"})
	wantErr(t, err, registry.ErrNotFound)
	names, err := protocol.ListGroups(ctx, f.h.Registry)
	must(t, err)
	if len(names) != 0 {
		t.Fatalf("groups %v, expected none", names)
	}
	_, err = f.g.EnsureMeta(ctx, protocol.Meta{Topic: "orders", Units: 5})
	must(t, err)
	st, err := f.g.Load(ctx, true)
	must(t, err)
	if len(st.Units) != 5 || st.Units[0].Owner.Epoch != 0 {
		t.Fatalf("%d units, the first %+v: the old group shows through", len(st.Units), st.Units[0].Owner)
	}
	if names, err = protocol.ListGroups(ctx, f.h.Registry); err != nil || !slices.Equal(names, []string{"billing"}) {
		t.Fatalf("groups %v, %v", names, err)
	}
}

func TestAnOutageIsUnavailableAndNeverAbsence(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	f.store.SetOutage(true)
	_, err := f.g.Unit(t.Context(), 0)
	wantErr(t, err, registry.ErrUnavailable)
	_, err = f.g.EnsureMeta(t.Context(), protocol.Meta{Topic: "x", Units: 1})
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
		h, a := f.join("a", "a1")
		_, err := a.Claim(ctx, 0, "")
		must(t, err)
		signals, err := f.h.Watch(ctx, f.g.WatchPrefix())
		must(t, err)
		time.Sleep(10 * ttl)
		if m, _ := f.g.ActiveMembers(ctx); len(m) != 1 {
			t.Fatal("a member that renews expired")
		}
		h.Freeze()
		time.Sleep(ttl * 11 / 10)
		select {
		case <-signals:
		default:
			t.Fatal("no signal at the end of a session")
		}
		if m, _ := f.g.ActiveMembers(ctx); len(m) != 0 {
			t.Fatalf("members %v, expected none", m)
		}
		_, err = protocoltest.Join(ctx, f.g, a.Session, protocol.Member{ID: "a", Incarnation: "a1"})
		wantErr(t, err, registry.ErrFenced)
		h.Thaw()
		<-a.Session.Done()
		h.Close()
		f.h.Close()
	})
}
