package pulsarlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/apache/pulsar-client-go/pulsar"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/ringfence/ringfence/internal/limits"
)

// An entry as it comes from a broker: what the broker adds, perhaps; a checksum; metadata; and a message, or
// several, each behind metadata of its own.
//
//	[0e02 size BrokerEntryMetadata] 0e01 crc32c size MessageMetadata payload
//	payload of a batch: (size SingleMessageMetadata payload)…
const (
	magicBroker   = 0x0e02
	magicChecksum = 0x0e01
)

// The client drops an entry that it can't read, without a word. vet puts another one in its place: one with
// damagedProperty, which says why, or with emptyProperty, as the client takes an empty message for a damaged one.
const (
	damagedProperty = ownPrefix + "damaged"
	emptyProperty   = ownPrefix + "empty"
)

// The fields of MessageMetadata and SingleMessageMetadata that say how an entry is read.
const (
	metaProperties   = 4
	metaCompression  = 8
	metaUncompressed = 9
	metaMessages     = 11
	metaEncryption   = 13
	metaChunks       = 27

	singleSize = 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// parsed is a message of Pulsar's protocol, as the client has registered it.
type parsed struct{ protoreflect.Message }

func parse(name protoreflect.Name, b []byte) (parsed, error) {
	kind, err := protoregistry.GlobalTypes.FindMessageByName("pulsar.proto." + protoreflect.FullName(name))
	if err != nil {
		return parsed{}, fmt.Errorf("the client does not know %s: %w", name, err)
	}
	m := kind.New()
	if proto.Unmarshal(b, m.Interface()) != nil {
		return parsed{}, errors.New("its metadata is damaged")
	}
	return parsed{m}, nil
}

func (p parsed) has(n protoreflect.FieldNumber) bool {
	return p.Has(p.Descriptor().Fields().ByNumber(n))
}

func (p parsed) value(n protoreflect.FieldNumber) protoreflect.Value {
	return p.Get(p.Descriptor().Fields().ByNumber(n))
}

// vet is nil for an entry that the client reads as it is, and else what to give it instead.
func vet(b []byte) []byte {
	meta, payload, err := splitEntry(b)
	if err != nil {
		return damagedEntry(err)
	}
	m, err := parse("MessageMetadata", meta)
	if err == nil {
		err = unreadable(m, payload)
	}
	switch {
	case err != nil:
		return damagedEntry(err)
	case !m.has(metaMessages) && len(payload) == 0 && !m.has(metaProperties):
		return joinEntry(appendProperty(meta[:len(meta):len(meta)], emptyProperty, ""), payload)
	}
	return nil
}

// unreadable says why the client would drop an entry, or fail by it.
func unreadable(m parsed, payload []byte) error {
	switch size, chunks := m.value(metaUncompressed).Uint(), m.value(metaChunks).Int(); {
	case m.has(metaEncryption):
		return errors.New("it is encrypted")
	case chunks > 1:
		return fmt.Errorf("it is one of %d chunks of a message", chunks)
	case size > limits.PulsarEntryBytes:
		return fmt.Errorf("it says that it has %d bytes decompressed; expected %d at most", size, limits.PulsarEntryBytes)
	case m.has(metaMessages) && (size == 0 || m.value(metaCompression).Enum() == 0):
		return checkBatch(payload, m.value(metaMessages).Int())
	}
	return nil
}

func splitEntry(b []byte) (meta, payload []byte, err error) {
	if len(b) >= 6 && binary.BigEndian.Uint16(b) == magicBroker {
		_, rest, ok := cutSized(b[2:])
		if !ok {
			return nil, nil, errors.New("what the broker adds to it is cut off")
		}
		b = rest
	}
	if len(b) < 10 || binary.BigEndian.Uint16(b) != magicChecksum {
		return nil, nil, errors.New("it has no checksum")
	}
	if crc32.Checksum(b[6:], castagnoli) != binary.BigEndian.Uint32(b[2:]) {
		return nil, nil, errors.New("its checksum is wrong")
	}
	meta, payload, ok := cutSized(b[6:])
	if !ok {
		return nil, nil, errors.New("its metadata is cut off")
	}
	return meta, payload, nil
}

// cutSized cuts off what stands behind its size.
func cutSized(b []byte) (part, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	size := uint64(binary.BigEndian.Uint32(b))
	if b = b[4:]; size > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:size], b[size:], true
}

func joinEntry(meta, payload []byte) []byte {
	b := make([]byte, 10, 10+len(meta)+len(payload))
	b = append(append(b, meta...), payload...)
	binary.BigEndian.PutUint16(b, magicChecksum)
	binary.BigEndian.PutUint32(b[6:], uint32(len(meta))) //nolint:gosec // of a frame, which has 32 bits for all
	binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], castagnoli))
	return b
}

// damagedEntry says why an entry can't be read, in a message of an unnamed producer.
func damagedEntry(why error) []byte {
	meta := []byte{1<<3 | 2, 0, 2 << 3, 0, 3 << 3, 0}
	return joinEntry(appendProperty(meta, damagedProperty, why.Error()), nil)
}

// damage is why a message stands for an entry that can't be read; nil: it does not.
func damage(m pulsar.Message) error {
	if why, ok := m.Properties()[damagedProperty]; ok {
		return fmt.Errorf("entry %d:%d can't be read: %.200q", m.ID().LedgerID(), m.ID().EntryID(), why)
	}
	return nil
}

func appendProperty(meta []byte, name, value string) []byte {
	p := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	p = protowire.AppendString(protowire.AppendTag(p, 2, protowire.BytesType), value)
	return protowire.AppendBytes(protowire.AppendTag(meta, metaProperties, protowire.BytesType), p)
}

// checkBatch follows the messages of a batch: the client reads on behind its end.
func checkBatch(b []byte, messages int64) error {
	if messages < 1 || messages > batchRecords {
		return fmt.Errorf("it says that it has %d messages; expected 1 to %d", messages, batchRecords)
	}
	for i := range messages {
		meta, rest, ok := cutSized(b)
		if !ok {
			return fmt.Errorf("it ends within message %d of %d", i, messages)
		}
		m, err := parse("SingleMessageMetadata", meta)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		size := m.value(singleSize).Int()
		if size < 0 || size > int64(len(rest)) {
			return fmt.Errorf("message %d says that it has %d bytes, of %d that there are", i, size, len(rest))
		}
		b = rest[size:]
	}
	return nil
}
