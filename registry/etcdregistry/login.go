package etcdregistry

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ringfence/ringfence/internal/storeurl"
)

// freshPassword puts what a file has at this moment into each login. etcd's client logs in when it
// begins and again when its token is over, always with the password that it was made with.
func freshPassword(path string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if login, ok := req.(*etcdserverpb.AuthenticateRequest); ok {
			password, err := storeurl.ReadPassword(path)
			if err != nil {
				return status.Error(codes.Unavailable, err.Error())
			}
			req = &etcdserverpb.AuthenticateRequest{Name: login.Name, Password: password}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}
