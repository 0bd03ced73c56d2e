// Package fault is the one table of error kinds: the sentinels that callers
// branch on, and what each means as an exit code and as an HTTP status.
//
// Public packages re-export the sentinels they can return (commitlog.ErrSealed,
// registry.ErrConflict, ringfence.ErrFenced …); they are the same values, so
// errors.Is works across every layer.
package fault

import (
	"context"
	"errors"
	"net/http"
)

// The kinds. Wrap them once with context: fmt.Errorf("topic %q: %w", name, fault.NotFound).
var (
	// Invalid is input that can never succeed: a bad name, a bad option, a record too large.
	Invalid = errors.New("invalid argument")
	// NotFound is a topic, group, partition or key that does not exist.
	NotFound = errors.New("not found")
	// Exists is a thing that exists already, with other properties than asked for.
	Exists = errors.New("already exists")
	// Conflict is a compare-and-set that lost: another process changed the entry first.
	Conflict = errors.New("conflict")
	// Fenced is a write by a stale owner, epoch or incarnation. It must stop; it must not retry.
	Fenced = errors.New("fenced")
	// Forgotten is an append of an idempotent producer that the log remembered once, or may have:
	// whether its sequence is stored is not known. It must not retry; it must begin anew, under
	// another ID, once it has found out.
	Forgotten = errors.New("producer forgotten")
	// Sealed is an append to a topic whose end offsets are fixed for ever.
	Sealed = errors.New("sealed")
	// OutOfRange is an offset that was trimmed or is past the end.
	OutOfRange = errors.New("offset out of range")
	// Corrupt is stored data whose checksum or structure is wrong.
	Corrupt = errors.New("corrupt data")
	// NotDone is a write that certainly left no trace and may be retried.
	NotDone = errors.New("not done")
	// Unknown is a write whose fate is unknown: it may or may not have been applied.
	Unknown = errors.New("outcome unknown")
	// Unavailable is a store that does not answer now, or that refuses us: a wrong password, a right
	// that is missing. It is a pause, not an answer.
	Unavailable = errors.New("unavailable")
	// Denied is a call that the daemon does not let this principal make.
	Denied = errors.New("not allowed")
	// Closed is a call on something that was closed.
	Closed = errors.New("closed")
	// Newer is stored data of a newer version. It is Invalid too, and sound: delete nothing, upgrade.
	Newer error = newer{}
)

type newer struct{}

func (newer) Error() string { return "written by a newer version: upgrade this program" }

func (newer) Is(target error) bool { return target == Invalid }

// Exit codes of the command line contract.
const (
	ExitOK       = 0
	ExitFailure  = 1
	ExitUsage    = 2
	ExitNotFound = 3
	ExitConflict = 4
	ExitTimeout  = 124
)

var table = []struct {
	kind   error
	slug   string // for programs, see Slug
	exit   int
	status int
}{
	{Denied, "denied", ExitFailure, http.StatusForbidden},
	{Invalid, "invalid", ExitUsage, http.StatusBadRequest},
	{NotFound, "not-found", ExitNotFound, http.StatusNotFound},
	{Exists, "exists", ExitConflict, http.StatusConflict},
	{Conflict, "conflict", ExitConflict, http.StatusConflict},
	{Fenced, "fenced", ExitConflict, http.StatusConflict},
	{Forgotten, "forgotten", ExitConflict, http.StatusGone},
	{Sealed, "sealed", ExitConflict, http.StatusConflict},
	{OutOfRange, "out-of-range", ExitFailure, http.StatusRequestedRangeNotSatisfiable},
	{Corrupt, "corrupt", ExitFailure, http.StatusInternalServerError},
	{NotDone, "not-done", ExitFailure, http.StatusServiceUnavailable},
	{Unknown, "unknown", ExitFailure, http.StatusInternalServerError},
	{Unavailable, "unavailable", ExitFailure, http.StatusServiceUnavailable},
	{Closed, "closed", ExitFailure, http.StatusServiceUnavailable},
	{context.DeadlineExceeded, "timeout", ExitTimeout, http.StatusGatewayTimeout},
}

// Slug is the word for the kind of err, and internal for one without a kind.
func Slug(err error) string {
	for _, row := range table {
		if errors.Is(err, row.kind) {
			return row.slug
		}
	}
	return "internal"
}

// OfSlug is the kind that has a word; nil: none.
func OfSlug(slug string) error {
	for _, row := range table {
		if row.slug == slug {
			return row.kind
		}
	}
	return nil
}

// ExitCode is the process exit code for err; 0 for nil.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	for _, row := range table {
		if errors.Is(err, row.kind) {
			return row.exit
		}
	}
	return ExitFailure
}

// HTTPStatus is the HTTP status for err; 200 for nil.
func HTTPStatus(err error) int {
	if err == nil {
		return http.StatusOK
	}
	for _, row := range table {
		if errors.Is(err, row.kind) {
			return row.status
		}
	}
	return http.StatusInternalServerError
}
