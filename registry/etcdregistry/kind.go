package etcdregistry

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

// certain are the answers that prove a transaction was not applied, and will not be. A code of gRPC
// proves nothing: etcd gives the same one to errors of both kinds, and so do proxies and gRPC itself.
// docs/design/stores.md has the reasons.
var certain = map[error]struct{}{
	// Found in the request itself, before it is proposed.
	rpctypes.ErrEmptyKey:        {},
	rpctypes.ErrDuplicateKey:    {},
	rpctypes.ErrTooManyOps:      {},
	rpctypes.ErrRequestTooLarge: {},
	// The node is too far behind to propose anything.
	rpctypes.ErrTooManyRequests: {},
	// The user is looked up before it is proposed, and rights before it is executed.
	rpctypes.ErrInvalidAuthToken: {},
	rpctypes.ErrUserEmpty:        {},
	rpctypes.ErrAuthOldRevision:  {},
	rpctypes.ErrPermissionDenied: {},
	// The leases of all puts are looked up before the first is executed.
	rpctypes.ErrLeaseNotFound: {},
}

// refused reports whether an answer proves that its transaction was not applied. Any other answer may
// come from a node that did not see the result, or that applied the transaction, as ErrNoSpace does.
func refused(err error) bool {
	var named rpctypes.EtcdError
	if errors.As(err, &named) {
		_, ok := certain[named]
		return ok
	}
	return oversize(err)
}

// oversize reports whether the server refused to read the request. gRPC has a text for it, and no name.
// An answer that is too large for this client has the same text, with our limit in it.
func oversize(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "received message larger than max") && !tooLong(err)
}

// code is the gRPC code of an error. The client has types of its own for errors that etcd names.
func code(err error) codes.Code {
	var named rpctypes.EtcdError
	if errors.As(err, &named) {
		return named.Code()
	}
	return status.Code(err)
}

// kind gives an error of the client its kind, for a request that changed nothing.
func (s *store) kind(ctx context.Context, err error) error {
	if ctx.Err() == nil && s.over() {
		return fault.Closed
	}
	return kind(ctx, err)
}

func kind(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return fmt.Errorf("%w: %w", err, fault.Fenced)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w; compact and defragment etcd, then disarm its alarm: %w", err, fault.Unavailable)
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps), oversize(err):
		return fmt.Errorf("%w; etcd's options --max-request-bytes and --max-txn-ops allow more: %w", err, fault.Invalid)
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty):
		return fmt.Errorf("%w; check user and password, and that the user may read and write below the prefix: %w", err, fault.Unavailable)
	case errors.Is(err, rpctypes.ErrAuthOldRevision): // users or rights have just changed
		return fmt.Errorf("%w: %w", err, fault.Unavailable)
	case code(err) == codes.InvalidArgument:
		return fmt.Errorf("%w: %w", err, fault.Invalid)
	}
	return fmt.Errorf("%w: %w", plainError{err}, fault.Unavailable)
}

// plainError is an error of gRPC without what gRPC puts around it, which is no help: the last of the texts within each other.
type plainError struct{ error }

func (e plainError) Unwrap() error { return e.error }

func (e plainError) Error() string {
	text := e.error.Error()
	for {
		_, within, more := strings.Cut(text, "desc = ")
		if !more {
			return strings.TrimPrefix(text, "transport: Error while dialing: ")
		}
		if text = within; strings.HasPrefix(text, `"`) {
			if plain, err := strconv.Unquote(text); err == nil {
				text = plain
			}
		}
	}
}

// tooLong reports whether an answer was too large, and not a request: gRPC has one text for both, with
// the limit that was broken in it.
func tooLong(err error) bool {
	return strings.Contains(err.Error(), fmt.Sprintf("vs. %d)", limits.EtcdAnswerBytes))
}
