package pulsarlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/apache/pulsar-client-go/pulsar"
	"google.golang.org/protobuf/encoding/protowire"
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

// damagedProperty is in the place of an entry that can't be read, and says why.
const damagedProperty = ownPrefix + "damaged"

// emptyProperty is added to a message without anything, which the client would take for a damaged one.
const emptyProperty = ownPrefix + "empty"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// vet is nil for an entry that the client reads as it is. Else it is what to give it instead: the same one
// decompressed, or one that says what is wrong with it.
func (d *decompressor) vet(b []byte) []byte {
	meta, payload, err := splitEntry(b)
	if err != nil {
		return damagedEntry(err)
	}
	m, err := readMetadata(meta)
	if err != nil {
		return damagedEntry(err)
	}
	changed := false
	if m.uncompressed > 0 && m.compression != 0 {
		if payload, err = d.decompress(m.compression, payload, m.uncompressed); err != nil {
			return damagedEntry(err)
		}
		changed = true
		meta = protowire.AppendVarint(protowire.AppendTag(meta[:len(meta):len(meta)], metaUncompressed, protowire.VarintType), 0) // the last one counts
	}
	if m.batched {
		if err := checkBatch(payload, m.messages); err != nil {
			return damagedEntry(err)
		}
	} else if len(payload) == 0 && !m.properties {
		changed = true
		meta = appendProperty(meta[:len(meta):len(meta)], emptyProperty, "")
	}
	if !changed {
		return nil
	}
	return joinEntry(meta, payload)
}

func splitEntry(b []byte) (meta, payload []byte, err error) {
	if len(b) >= 6 && binary.BigEndian.Uint16(b) == magicBroker {
		size := uint64(binary.BigEndian.Uint32(b[2:]))
		if size > uint64(len(b)-6) {
			return nil, nil, errors.New("what the broker adds to it is cut off")
		}
		b = b[6+size:]
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

// damagedEntry says why an entry can't be read: as a message of nobody and no time.
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

// checkBatch follows the messages of a batch.
func checkBatch(b []byte, messages int32) error {
	if messages < 1 || messages > batchRecords {
		return fmt.Errorf("it says that it has %d messages; expected 1 to %d", messages, batchRecords)
	}
	for i := range messages {
		meta, rest, ok := cutSized(b)
		if !ok {
			return fmt.Errorf("it ends within message %d of %d", i, messages)
		}
		size, err := payloadSize(meta)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if size < 0 || int64(size) > int64(len(rest)) {
			return fmt.Errorf("message %d says that it has %d bytes, of %d that there are", i, size, len(rest))
		}
		b = rest[size:]
	}
	return nil
}
