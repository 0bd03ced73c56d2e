package etcdregistry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

// A server may be anybody, and etcd's client and this package take parts of an answer without looking.
// So each answer is held against its request before either of them sees it.

// sound lets no answer through that is none to its request.
func sound(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if err := invoke(ctx, method, request, reply, cc, opts...); err != nil {
		return err
	}
	if err := checkAnswer(request, reply); err != nil {
		return fmt.Errorf("%s: the server does not answer as etcd does: %w: %w", method, err, fault.Corrupt)
	}
	return nil
}

// soundStream is sound for the streams of watches and renewals.
func soundStream(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := stream(ctx, d, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &soundMessages{s, method}, nil
}

type soundMessages struct {
	grpc.ClientStream

	method string
}

// RecvMsg implements grpc.ClientStream.
func (s *soundMessages) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	if err := checkAnswer(nil, m); err != nil {
		return fmt.Errorf("%s: the server does not answer as etcd does: %w: %w", s.method, err, fault.Corrupt)
	}
	return nil
}

// longestLease is above any that etcd grants, in seconds.
const longestLease = 9_000_000_000

var errNoHead = errors.New("an answer without a head")

func checkAnswer(request, reply any) error {
	switch a := reply.(type) {
	case *pb.RangeResponse:
		if a.Header == nil {
			return errNoHead
		}
		r, _ := request.(*pb.RangeRequest)
		return checkRange(r, a)
	case *pb.TxnResponse:
		if a.Header == nil {
			return errNoHead
		}
		r, _ := request.(*pb.TxnRequest)
		return checkTxn(r, a)
	case *pb.LeaseGrantResponse:
		if a.Error == "" && (a.ID <= 0 || a.TTL < 1 || a.TTL > longestLease) {
			return fmt.Errorf("a lease %d of %d seconds", a.ID, a.TTL)
		}
	case *pb.WatchResponse:
		if a.Header == nil {
			return errNoHead
		}
		if a.Fragment {
			return errors.New("a part of a change, which nobody asked for")
		}
		for _, e := range a.Events {
			if e == nil || e.Kv == nil {
				return errors.New("a change of nothing")
			}
		}
	}
	return nil
}

// checkRange holds the keys of a list against those that were asked for.
func checkRange(r *pb.RangeRequest, a *pb.RangeResponse) error {
	for _, kv := range a.GetKvs() {
		inside := kv != nil && r != nil && (bytes.Equal(kv.Key, r.Key) || len(r.RangeEnd) > 0 &&
			bytes.Compare(kv.Key, r.Key) >= 0 && (bytes.Compare(kv.Key, r.RangeEnd) < 0 || string(r.RangeEnd) == "\x00"))
		if !inside {
			var key []byte
			if kv != nil {
				key = kv.Key
			}
			return fmt.Errorf("a list with the key %.100q, which was not asked for", key)
		}
	}
	return nil
}

// checkTxn sees that there is a fate of each operation, of its kind.
func checkTxn(r *pb.TxnRequest, a *pb.TxnResponse) error {
	if r == nil || a == nil {
		return errors.New("the fate of no transaction")
	}
	if !a.Succeeded && len(r.Compare) == 0 {
		return errors.New("a transaction without conditions whose conditions do not hold")
	}
	ops := r.Success
	if !a.Succeeded {
		ops = r.Failure
	}
	if len(a.Responses) != len(ops) {
		return fmt.Errorf("%d fates of %d operations", len(a.Responses), len(ops))
	}
	for i, op := range ops {
		var err error
		of, ok := a.Responses[i], false
		switch {
		case op.GetRequestRange() != nil:
			if ok = of.GetResponseRange() != nil; ok {
				err = checkRange(op.GetRequestRange(), of.GetResponseRange())
			}
		case op.GetRequestTxn() != nil:
			if ok = of.GetResponseTxn() != nil; ok {
				err = checkTxn(op.GetRequestTxn(), of.GetResponseTxn())
			}
		case op.GetRequestPut() != nil:
			ok = of.GetResponsePut() != nil
		case op.GetRequestDeleteRange() != nil:
			ok = of.GetResponseDeleteRange() != nil
		}
		if err != nil || !ok {
			return errors.Join(err, fmt.Errorf("the fate of operation %d of a transaction is of another kind", i))
		}
	}
	return nil
}

// tooLong says that it was an answer that was too large, and not a request: gRPC has one text for both,
// with the limit that was broken in it.
func tooLong(err error) bool {
	return strings.Contains(err.Error(), fmt.Sprintf("vs. %d)", limits.EtcdAnswerBytes))
}
