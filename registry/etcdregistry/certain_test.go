package etcdregistry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry"
)

// What etcd has names for, and a code of gRPC's alone, which anybody on the way may give.
func TestOnlyWhatTheTableNamesIsCertain(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		rpctypes.ErrTooManyOps, rpctypes.ErrDuplicateKey, rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyRequests,
		rpctypes.ErrPermissionDenied, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision, rpctypes.ErrUserEmpty, rpctypes.ErrLeaseNotFound,
		status.Error(codes.ResourceExhausted, "grpc: received message larger than max (4194304 vs. 2097152)"),
	} {
		if !refused(err) || !refused(fmt.Errorf("with more around it: %w", err)) {
			t.Errorf("%v: it is not certain that it was not applied", err)
		}
	}
	unsure := []error{
		rpctypes.ErrNoSpace, rpctypes.ErrCorrupt, rpctypes.ErrNoLeader, rpctypes.ErrLeaderChanged, rpctypes.ErrStopped, rpctypes.ErrUnhealthy,
		rpctypes.ErrTimeout, rpctypes.ErrTimeoutDueToLeaderFail, rpctypes.ErrTimeoutDueToConnectionLost, rpctypes.ErrCompacted, rpctypes.ErrMemberNotFound,
		context.Canceled, context.DeadlineExceeded, errors.New("anything"),
	}
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		unsure = append(unsure, status.Error(c, "of a proxy"))
	}
	if !slices.ContainsFunc(unsure, func(err error) bool { return status.Code(err) == codes.Unauthenticated }) {
		t.Fatal("a code is missing")
	}
	for _, err := range unsure {
		if refused(err) {
			t.Errorf("%v: it is certain that it was not applied; expected that nobody knows", err)
		}
	}
}

// internal/integration shows it on an etcd that is full; there a write that is applied and answered
// so can't be had at will.
func TestAFullEtcdHasAppliedNothingWhileItsRevisionStays(t *testing.T) {
	t.Parallel()
	s := opened(t, config(t, testserver.Private(t, "etcd").URL()))
	answer := func(applied bool) bool {
		unknown, err := s.whileFull(t.Context(), func() (bool, error) {
			if applied {
				if _, err := s.client.Put(t.Context(), s.root+"k", "v"); err != nil {
					t.Fatal(err)
				}
			}
			return true, rpctypes.ErrNoSpace
		})
		if !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatalf("%v; expected the server's answer", err)
		}
		return unknown
	}
	if !answer(true) || !s.full.Load() {
		t.Error("the first answer was believed, or forgotten")
	}
	for range 2 {
		if answer(false) {
			t.Error("the revision is the same, so nothing was applied; but nobody is said to know")
		}
		if !answer(true) {
			t.Error("what was applied is said not to be")
		}
	}
	eventually(t, "a write", apply(s, "k"))
	if s.full.Load() || !answer(false) {
		t.Error("a write that is done was taken for one in a full etcd")
	}
}

// The README promises a takeover within 3 s, with no option set.
func TestTheLeaseThatIsAskedForIsTheShortestThatEtcdGrants(t *testing.T) {
	t.Parallel()
	s := opened(t, config(t, testserver.URL(t, "etcd")))
	for _, ttl := range []time.Duration{registry.New(s).SessionTTL(), registry.MinSessionTTL} {
		x, err := s.OpenSession(t.Context(), ttl)
		if err != nil {
			t.Fatal(err)
		}
		granted, err := s.client.TimeToLive(t.Context(), leaseID(x.ID()))
		if err != nil {
			t.Fatal(err)
		}
		if granted.GrantedTTL != 2 {
			t.Errorf("asked for %s, etcd granted a lease of %d s; expected 2", ttl, granted.GrantedTTL)
		}
	}
}

func TestKindShowsTheInnermostTextOfGRPC(t *testing.T) {
	t.Parallel()
	refused := status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`)
	for given, want := range map[error]string{
		refused:                                "dial tcp 127.0.0.1:1: connect: connection refused: unavailable",
		status.Error(codes.Unavailable, "why"): "why: unavailable",
		errors.New("anything"):                 "anything: unavailable",
	} {
		if err := kind(t.Context(), given); err.Error() != want || !errors.Is(err, given) {
			t.Errorf("%v became %v; expected %s", given, err, want)
		}
	}
}
