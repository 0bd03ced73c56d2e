package etcdregistry

import (
	"encoding/binary"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that decodes
	"google.golang.org/grpc/mem"

	"github.com/ringfence/ringfence/internal/limits"
)

// An entry of a list can be two bytes on the wire and is a hundred in memory, so that an answer of a size
// that is allowed takes eighty times as much once it is decoded. So the parts of an answer are counted
// before anybody makes room for them. Only what etcd's client asks for in our name is looked into; all
// else is so short that it does not matter what is in it.

// otherBytes is how long an answer may be that has no parts which are counted.
const otherBytes = 1 << 20

// shape says of a kind of message in which of its fields other messages lie, and of what kind.
type shape map[uint64]shape

// The shapes of what can have many parts. A message in none of these fields is one that etcd merges into
// the one before it: it takes room once.
var (
	pairShape  = shape{}
	rangeShape = shape{2: pairShape}
	txnShape   = shape{3: opShape}
	opShape    = shape{1: rangeShape, 2: {2: pairShape}, 3: {3: pairShape}}
	watchShape = shape{11: {2: pairShape, 3: pairShape}}
)

// counted is the codec of gRPC's messages, but for answers of too many parts.
type counted struct{ encoding.CodecV2 }

func newCodec() counted { return counted{encoding.GetCodecV2("proto")} }

// Unmarshal implements encoding.CodecV2.
func (c counted) Unmarshal(data mem.BufferSlice, v any) error {
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	if err := checkParts(whole.ReadOnlyData(), v); err != nil {
		return fmt.Errorf("the server does not answer as etcd does: %w", err)
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{whole}, v) //nolint:wrapcheck // gRPC tells what it is of
}

func checkParts(b []byte, v any) error {
	left := limits.EtcdAnswerParts
	switch v.(type) {
	case *pb.RangeResponse:
		return rangeShape.count(b, &left)
	case *pb.TxnResponse:
		return txnShape.count(b, &left)
	case *pb.WatchResponse:
		return watchShape.count(b, &left)
	}
	if len(b) > otherBytes {
		return fmt.Errorf("an answer of %d bytes; expected at most %d", len(b), otherBytes)
	}
	return nil
}

var errTorn = errors.New("an answer that is no message")

// count takes the parts of a message from what is left of them.
func (s shape) count(b []byte, left *int) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return errTorn
		}
		b = b[n:]
		var part []byte
		switch tag & 7 {
		case 0:
			_, n = binary.Uvarint(b)
		case 1:
			n = 8
		case 2:
			var size uint64
			if size, n = binary.Uvarint(b); n <= 0 || size > uint64(len(b)-n) {
				return errTorn
			}
			part, n = b[n:n+int(size)], n+int(size) //nolint:gosec // at most len(b)
		case 5:
			n = 4
		default: // groups: etcd has none
			n = 0
		}
		if n <= 0 || n > len(b) {
			return errTorn
		}
		b = b[n:]
		inner, ok := s[tag>>3]
		if !ok {
			continue
		}
		if *left--; *left < 0 {
			return fmt.Errorf("an answer of more than %d parts", limits.EtcdAnswerParts)
		}
		if err := inner.count(part, left); err != nil {
			return err
		}
	}
	return nil
}
