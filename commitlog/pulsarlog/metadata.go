package pulsarlog

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of MessageMetadata and SingleMessageMetadata that say how an entry is read.
const (
	metaProperties   = 4
	metaCompression  = 8
	metaUncompressed = 9
	metaMessages     = 11
	metaEncryption   = 13
	metaChunks       = 27

	singleProperties = 1
	singleSize       = 3
)

// metadata of an entry, as far as its shape goes.
type entryMetadata struct {
	compression  int32
	uncompressed uint32
	batched      bool
	messages     int32
	properties   bool
}

var errMetadata = errors.New("its metadata is damaged")

// eachField calls f with each field of a message; b is what a field of bytes has, v any other.
func eachField(m []byte, f func(number protowire.Number, kind protowire.Type, v uint64, b []byte) error) error {
	for len(m) > 0 {
		number, kind, n := protowire.ConsumeTag(m)
		if n < 0 {
			return errMetadata
		}
		m = m[n:]
		var v uint64
		var b []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(m)
		case protowire.BytesType:
			b, n = protowire.ConsumeBytes(m)
		default:
			n = protowire.ConsumeFieldValue(number, kind, m)
		}
		if n < 0 {
			return errMetadata
		}
		m = m[n:]
		if err := f(number, kind, v, b); err != nil {
			return err
		}
	}
	return nil
}

// property is an error for one without a name or a value, which the client does not read.
func property(b []byte) error {
	has := 0
	err := eachField(b, func(number protowire.Number, kind protowire.Type, _ uint64, _ []byte) error {
		if kind == protowire.BytesType && (number == 1 || number == 2) {
			has |= int(number)
		}
		return nil
	})
	if err != nil || has != 3 {
		return errMetadata
	}
	return nil
}

func readMetadata(meta []byte) (m entryMetadata, err error) {
	m.messages = 1
	required := 0
	err = eachField(meta, func(number protowire.Number, kind protowire.Type, v uint64, b []byte) error {
		is := func(want protowire.Number, of protowire.Type) bool { return number == want && kind == of }
		switch {
		case is(1, protowire.BytesType), is(2, protowire.VarintType), is(3, protowire.VarintType):
			required |= 1 << number
		case is(metaProperties, protowire.BytesType):
			m.properties = true
			return property(b)
		case is(metaCompression, protowire.VarintType):
			m.compression = int32(v) //nolint:gosec // as the client reads it
		case is(metaUncompressed, protowire.VarintType):
			m.uncompressed = uint32(v) //nolint:gosec // as the client reads it
		case is(metaMessages, protowire.VarintType):
			m.batched, m.messages = true, int32(v) //nolint:gosec // as the client reads it
		case is(metaEncryption, protowire.BytesType):
			return errors.New("it is encrypted")
		case is(metaChunks, protowire.VarintType) && int32(v) > 1: //nolint:gosec // as the client reads it
			return fmt.Errorf("it is one of %d chunks of a message", int32(v)) //nolint:gosec // as the client reads it
		}
		return nil
	})
	if err == nil && required != 1<<1|1<<2|1<<3 {
		err = errMetadata
	}
	return m, err
}

// payloadSize is how many bytes follow the metadata of a message of a batch.
func payloadSize(meta []byte) (size int32, err error) {
	has := false
	err = eachField(meta, func(number protowire.Number, kind protowire.Type, v uint64, b []byte) error {
		switch {
		case number == singleSize && kind == protowire.VarintType:
			has, size = true, int32(v) //nolint:gosec // as the client reads it
		case number == singleProperties && kind == protowire.BytesType:
			return property(b)
		}
		return nil
	})
	if err == nil && !has {
		err = errMetadata
	}
	return size, err
}
