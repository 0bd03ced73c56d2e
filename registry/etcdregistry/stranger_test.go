package etcdregistry

import (
	"context"
	"net"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// stranger is whoever listens in the place of an etcd.
type stranger struct {
	pb.UnimplementedKVServer
	pb.UnimplementedLeaseServer
	pb.UnimplementedWatchServer

	found   func(*pb.RangeRequest) *pb.RangeResponse
	applied func(*pb.TxnRequest) *pb.TxnResponse
	lease   *pb.LeaseGrantResponse
	event   *pb.WatchResponse
}

var (
	head    = &pb.ResponseHeader{Revision: 7}
	present = func(r *pb.RangeRequest) *pb.RangeResponse { // the format, as it should be
		return &pb.RangeResponse{Header: head, Kvs: []*mvccpb.KeyValue{{Key: r.Key, Value: []byte(format), ModRevision: 7}}}
	}
)

func (s *stranger) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if string(r.Key) == defaultPrefix+"/format" || s.found == nil {
		return present(r), nil
	}
	return s.found(r), nil
}

func (s *stranger) Txn(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	return s.applied(r), nil
}

func (s *stranger) LeaseGrant(context.Context, *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	return s.lease, nil
}

func (s *stranger) Watch(w pb.Watch_WatchServer) error {
	if _, err := w.Recv(); err != nil {
		return err
	}
	if err := w.Send(s.event); err != nil {
		return err
	}
	<-w.Context().Done()
	return nil
}

// meet opens a registry at a stranger.
func meet(t *testing.T, s *stranger) *registry.Registry {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterKVServer(server, s)
	pb.RegisterLeaseServer(server, s)
	pb.RegisterWatchServer(server, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	r, err := Open(t.Context(), Config{Endpoints: []string{l.Addr().String()}, RequestTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// Each of these ended the process, or was believed.
func TestAStrangersAnswersEndNoProcess(t *testing.T) {
	t.Parallel()
	put := []driver.Txn{{Checks: []driver.Check{{Key: "a"}}, Puts: []driver.Put{{Key: "a", Value: []byte("x")}}}}
	two := append(put, driver.Txn{Checks: []driver.Check{{Key: "b"}}, Puts: []driver.Put{{Key: "b", Value: []byte("x")}}})
	quiet := []driver.Txn{put[0], two[1]}
	quiet[0].Quiet, quiet[1].Quiet = true, true
	kv := func(key string) []*mvccpb.KeyValue { return []*mvccpb.KeyValue{{Key: []byte(key)}} }
	list := func(r *registry.Registry) error { _, err := r.List(t.Context(), "a"); return err }
	apply := func(txns []driver.Txn) func(r *registry.Registry) error {
		return func(r *registry.Registry) error {
			res, err := r.Apply(t.Context(), txns)
			if err == nil {
				err = res[0].Err
			}
			return err
		}
	}
	session := func(r *registry.Registry) error { _, err := r.OpenSession(t.Context(), time.Second); return err }
	watch := func(r *registry.Registry) error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // it tries again
		defer cancel()
		_, err := r.Watch(ctx, "a")
		return err
	}
	for what, c := range map[string]struct {
		s  stranger
		do func(*registry.Registry) error
	}{
		"a list without a head": {stranger{found: func(*pb.RangeRequest) *pb.RangeResponse { return &pb.RangeResponse{} }}, list},
		"a list of a short key": {stranger{found: func(*pb.RangeRequest) *pb.RangeResponse { return &pb.RangeResponse{Header: head, Kvs: kv("x")} }}, list},
		"a list of others' keys": {stranger{found: func(*pb.RangeRequest) *pb.RangeResponse {
			return &pb.RangeResponse{Header: head, Kvs: kv("ringfence/v1/other/a")}
		}}, list},
		"a transaction without a head": {stranger{applied: func(*pb.TxnRequest) *pb.TxnResponse { return &pb.TxnResponse{Succeeded: true} }}, apply(put)},
		"a conflict of nothing":        {stranger{applied: func(*pb.TxnRequest) *pb.TxnResponse { return &pb.TxnResponse{Header: head} }}, apply(put)},
		"a conflict of another kind": {stranger{applied: func(*pb.TxnRequest) *pb.TxnResponse {
			return &pb.TxnResponse{Header: head, Responses: []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}}}}
		}}, apply(put)},
		"branches without fates": {stranger{applied: func(*pb.TxnRequest) *pb.TxnResponse { return &pb.TxnResponse{Header: head, Succeeded: true} }}, apply(two)},
		"empty branches": {stranger{applied: func(*pb.TxnRequest) *pb.TxnResponse {
			return &pb.TxnResponse{Header: head, Succeeded: true, Responses: []*pb.ResponseOp{{}, {}}}
		}}, apply(two)},
		"checkpoints whose conditions never hold": {stranger{applied: func(r *pb.TxnRequest) *pb.TxnResponse { return &pb.TxnResponse{Header: head} }}, apply(quiet)},
		"no lease":               {stranger{lease: &pb.LeaseGrantResponse{Header: head}}, session},
		"a lease of minus one":   {stranger{lease: &pb.LeaseGrantResponse{Header: head, ID: 1, TTL: -1}}, session},
		"a lease for ever":       {stranger{lease: &pb.LeaseGrantResponse{Header: head, ID: 1, TTL: 1 << 62}}, session},
		"a watch without a head": {stranger{event: &pb.WatchResponse{Created: true}}, watch},
		"a watch of nobody":      {stranger{event: &pb.WatchResponse{WatchId: 99, Events: []*mvccpb.Event{{}}}}, watch},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if err := c.do(meet(t, &c.s)); err == nil {
				t.Error("it is believed")
			}
		})
	}
}
