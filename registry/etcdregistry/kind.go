package etcdregistry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ringfence/ringfence/internal/fault"
)

// certain are the answers to a transaction which say that it was not applied, and will not be.
// Nothing else says so: a code of gRPC's is not enough, because etcd gives the same one to errors of
// both kinds, and proxies and gRPC itself give it too. docs/errors-of-stores.md has the reasons.
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

// refused says whether the server certainly did not apply a transaction that it answered so. All
// other answers may come from a node that waited for a result and did not get to see it, or that
// applied it and has something to say besides, as ErrNoSpace does.
func refused(err error) bool {
	var named rpctypes.EtcdError
	if errors.As(err, &named) {
		_, ok := certain[named]
		return ok
	}
	return oversize(err)
}

// oversize: the server did not even read the request. The text is gRPC's, which has no name for it.
// An answer that is too large for us has the same text, with our limit in it.
func oversize(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "received message larger than max") && !tooLong(err)
}

// code is the gRPC code of an error of the client, which has types of its own for those that the
// server names.
func code(err error) codes.Code {
	var named rpctypes.EtcdError
	if errors.As(err, &named) {
		return named.Code()
	}
	return status.Code(err)
}

// kind makes an error of the client one of ours, for a request that changes nothing or that the
// server refused.
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
	case errors.Is(err, rpctypes.ErrAuthOldRevision): // somebody just changed users or rights
		return fmt.Errorf("%w: %w", err, fault.Unavailable)
	case code(err) == codes.InvalidArgument:
		return fmt.Errorf("%w: %w", err, fault.Invalid)
	}
	return fmt.Errorf("%w: %w", err, fault.Unavailable)
}
