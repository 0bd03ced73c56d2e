package etcdregistry

import (
	"context"
	"os"
	"path/filepath"
	"testing"

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
