package fault_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
)

// kinds is the contract that scripts and clients of the API depend on.
var kinds = []struct {
	kind   error
	exit   int
	status int
}{
	{fault.Invalid, 2, http.StatusBadRequest},
	{fault.NotFound, 3, http.StatusNotFound},
	{fault.Exists, 4, http.StatusConflict},
	{fault.Conflict, 4, http.StatusConflict},
	{fault.Fenced, 4, http.StatusConflict},
	{fault.Forgotten, 4, http.StatusGone},
	{fault.Sealed, 4, http.StatusConflict},
	{fault.OutOfRange, 1, http.StatusRequestedRangeNotSatisfiable},
	{fault.Corrupt, 1, http.StatusInternalServerError},
	{fault.NotDone, 1, http.StatusServiceUnavailable},
	{fault.Unknown, 1, http.StatusInternalServerError},
	{fault.Unavailable, 1, http.StatusServiceUnavailable},
	{fault.Closed, 1, http.StatusServiceUnavailable},
	{context.DeadlineExceeded, 124, http.StatusGatewayTimeout},
}

func TestEachKindHasItsExitCodeAndItsStatus(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		for depth, err := range []error{k.kind, fmt.Errorf("topic %q: %w", "t", k.kind), errors.Join(errors.New("other"), fmt.Errorf("a: %w", fmt.Errorf("b: %w", k.kind)))} {
			if got := fault.ExitCode(err); got != k.exit {
				t.Errorf("%v, wrapped %d times: exit code %d; expected %d", k.kind, depth, got, k.exit)
			}
			if got := fault.HTTPStatus(err); got != k.status {
				t.Errorf("%v, wrapped %d times: status %d; expected %d", k.kind, depth, got, k.status)
			}
		}
	}
}

func TestSuccessAndUnknownErrorsHaveCodesToo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err          error
		exit, status int
	}{
		{nil, 0, http.StatusOK},
		{errors.New("anything else"), 1, http.StatusInternalServerError},
		{context.Canceled, 1, http.StatusInternalServerError},
	} {
		if exit, status := fault.ExitCode(c.err), fault.HTTPStatus(c.err); exit != c.exit || status != c.status {
			t.Errorf("%v: exit code %d and status %d; expected %d and %d", c.err, exit, status, c.exit, c.status)
		}
	}
}

// What can never succeed is told from what may pass, and a loss of ownership from both.
func TestAnErrorOfTwoKindsCountsAsTheMoreTelling(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		also, decides error
	}{
		{fault.Unavailable, fault.Fenced},
		{fault.Unavailable, fault.NotDone},
		{fault.Closed, fault.Unknown},
		{context.DeadlineExceeded, fault.Unknown},
		{fault.Unavailable, fault.Corrupt},
	} {
		err := fmt.Errorf("%w: %w", c.also, c.decides)
		if fault.ExitCode(err) != fault.ExitCode(c.decides) || fault.HTTPStatus(err) != fault.HTTPStatus(c.decides) {
			t.Errorf("%v: exit code %d and status %d; expected those of %v", err, fault.ExitCode(err), fault.HTTPStatus(err), c.decides)
		}
	}
}

func TestKindsAreDifferent(t *testing.T) {
	t.Parallel()
	for i, a := range kinds {
		for j, b := range kinds {
			if errors.Is(a.kind, b.kind) != (i == j) {
				t.Errorf("%v and %v are told apart wrongly", a.kind, b.kind)
			}
		}
	}
}
