package etcdregistry

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// etcd's client logs in again when its token is over; the test calls what it would call.
func TestThePasswordFileIsReadForEachLogin(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	var got any
	call := func(req any) error {
		return freshPassword(file)(t.Context(), "", req, nil, nil, func(_ context.Context, _ string, req, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			got = req
			return nil
		})
	}
	for _, want := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(want+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := call(&etcdserverpb.AuthenticateRequest{Name: "me", Password: "begun with"}); err != nil {
			t.Fatal(err)
		}
		if r, ok := got.(*etcdserverpb.AuthenticateRequest); !ok || r.Name != "me" || r.Password != want {
			t.Errorf("logged in with %v; the file has %q", got, want)
		}
	}
	other := &etcdserverpb.RangeRequest{}
	if err := call(other); err != nil || got != any(other) {
		t.Errorf("another request: %v, %v", got, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := call(&etcdserverpb.AuthenticateRequest{}); err == nil {
		t.Error("logged in without the file")
	}
}

// Who calls an end to it is heard while the client logs in.
func TestALoginThatIsNotAnsweredEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		<-s.Context().Done() // no answer
		return s.Context().Err()
	}))
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-done })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begun := time.Now()
	_, err = Open(ctx, Config{Endpoints: []string{l.Addr().String()}, User: "me", Password: "x", RequestTimeout: time.Minute})
	if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took > 20*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}
