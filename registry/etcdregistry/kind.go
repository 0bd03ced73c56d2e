package etcdregistry

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ringfence/ringfence/internal/fault"
)

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
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps):
		return fmt.Errorf("%w; etcd's options --max-request-bytes and --max-txn-ops allow more: %w", err, fault.Invalid)
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty):
		return fmt.Errorf("%w; check user and password, and that the user may read and write below the prefix: %w", err, fault.Unavailable)
	case code(err) == codes.InvalidArgument:
		return fmt.Errorf("%w: %w", err, fault.Invalid)
	}
	return fmt.Errorf("%w: %w", err, fault.Unavailable)
}

// refused says whether the server certainly did not apply a request that it answered so. All
// other answers may come from a node that waited for a result and did not get to see it.
func refused(err error) bool {
	switch code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.ResourceExhausted, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition, codes.OutOfRange:
		return true
	}
	return false
}
