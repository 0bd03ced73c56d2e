package etcdregistry

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/memtest"
)

// asIs sends bytes as they are.
type asIs struct{}

func (asIs) Name() string { return "proto" }

func (asIs) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (asIs) Unmarshal(d mem.BufferSlice, v any) error {
	*v.(*[]byte) = d.Materialize()
	return nil
}

// says is an etcd that gives one answer to all that is asked of a method, and to the rest what opens a registry.
func says(t *testing.T, method string, answer []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opens, err := present(&pb.RangeRequest{Key: []byte(defaultPrefix + "/format")}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	server := grpc.NewServer(grpc.ForceServerCodecV2(asIs{}), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		var in []byte
		if err := s.RecvMsg(&in); err != nil {
			return err
		}
		name, _ := grpc.MethodFromServerStream(s)
		if first := asked.Add(1) == 1; first || !strings.HasSuffix(name, method) {
			return s.SendMsg(&opens)
		}
		return s.SendMsg(&answer)
	}))
	done := make(chan struct{})
	go func() { // joined below
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return l.Addr().String()
}

// Two bytes on the wire are a hundred in memory.
func TestAnAnswerOfTooManyPartsIsNotDecoded(t *testing.T) {
	header, err := (&pb.RangeResponse{Header: head}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	answer := append(header, bytes.Repeat([]byte{2<<3 | 2, 0}, 16<<20)...)
	r, err := Open(t.Context(), Config{Endpoints: []string{says(t, "/Range", answer)}, RequestTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	memtest.AtMost(t, 256<<20, "an answer of 32 MiB", func() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err = r.List(ctx, "a")
	})
	if err == nil || !strings.Contains(err.Error(), "more than 1114112 parts") {
		t.Errorf("%v; expected that it has too many parts", err)
	}
}

func TestThePartsOfAnAnswerAreCountedWhereverTheyAre(t *testing.T) {
	t.Parallel()
	many := func(field byte) []byte {
		return bytes.Repeat([]byte{field<<3 | 2, 0}, limits.EtcdAnswerParts+1)
	}
	in := func(field byte, b []byte) []byte {
		return append(append([]byte{field<<3 | 2}, size(len(b))...), b...)
	}
	for what, c := range map[string]struct {
		of any
		b  []byte
	}{
		"a list":                   {&pb.RangeResponse{}, many(2)},
		"fates":                    {&pb.TxnResponse{}, many(3)},
		"a list in a fate":         {&pb.TxnResponse{}, in(3, in(1, many(2)))},
		"lists of a fate":          {&pb.TxnResponse{}, in(3, many(1))},
		"deletions of a fate":      {&pb.TxnResponse{}, in(3, in(3, many(3)))},
		"changes":                  {&pb.WatchResponse{}, many(11)},
		"entries of a change":      {&pb.WatchResponse{}, in(11, many(2))},
		"an answer of another use": {&pb.MemberListResponse{}, make([]byte, otherBytes+1)},
	} {
		if err := checkParts(c.b, c.of); err == nil {
			t.Errorf("%s: more than %d parts are let through", what, limits.EtcdAnswerParts)
		}
	}
	sound := &pb.TxnResponse{Header: head, Succeeded: true, Responses: []*pb.ResponseOp{
		{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{Header: head}}},
		{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Header: head, Count: 1, Kvs: []*mvccpb.KeyValue{{Key: []byte("k"), Value: []byte("v"), ModRevision: 7, Lease: -1}}}}},
	}}
	b, err := sound.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := checkParts(b, sound); err != nil {
		t.Errorf("a sound answer: %v", err)
	}
	for n := range b[:len(b)-1] {
		_ = checkParts(b[:n], sound) // torn: no panic
	}
}

func size(n int) []byte {
	var b []byte
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// The client joins parts of a change until the last has come; we ask for no parts.
func TestAPartOfAChangeIsRefused(t *testing.T) {
	t.Parallel()
	if err := checkAnswer(nil, &pb.WatchResponse{Header: head, Fragment: true}); err == nil {
		t.Error("it is joined with what follows, without end")
	}
}

func FuzzParts(f *testing.F) {
	b, err := (&pb.RangeResponse{Header: head, Kvs: []*mvccpb.KeyValue{{Key: []byte("k")}}}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range []interface {
			Unmarshal([]byte) error
			Marshal() ([]byte, error)
		}{&pb.RangeResponse{}, &pb.TxnResponse{}, &pb.WatchResponse{}} {
			if checkParts(b, v) != nil || v.Unmarshal(b) != nil {
				continue
			}
			again, err := v.Marshal()
			if err == nil {
				err = checkParts(again, v)
			}
			if err != nil {
				t.Errorf("%T is let through, and not as etcd writes it: %v", v, err)
			}
		}
	})
}
