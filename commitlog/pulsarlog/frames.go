package pulsarlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ringfence/ringfence/internal/limits"
)

// What Pulsar's protocol sends is a size, the size of a command, the command (a message of protobuf), and with
// some commands an entry:
//
//	size 4, big endian, of what follows
//	size 4, of the command
//	command
//	entry

// errFrame is the end of a connection whose other side does not speak as Pulsar does.
var errFrame = errors.New("it does not speak as Pulsar does")

// wireMessage is what stands in front of an entry.
type wireMessage struct {
	kind    protowire.Number // which command
	command []byte           // valid until the next one
	entry   int              // bytes behind it
}

// body is what the command says.
func (m wireMessage) body() []byte { return field(m.command, m.kind) }

// readMessage reads up to the entry. buf is made use of, and larger afterwards if need be.
func readMessage(r *bufio.Reader, buf *[]byte) (m wireMessage, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return m, err //nolint:wrapcheck // that of the connection
	}
	size, command := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	switch {
	case size > limits.PulsarFrameBytes:
		return m, fmt.Errorf("%w: a message of %d bytes; at most %d are taken", errFrame, size, limits.PulsarFrameBytes)
	case size < 4 || command > size-4:
		return m, fmt.Errorf("%w: a message of %d bytes with a command of %d", errFrame, size, command)
	case command > limits.PulsarCommandBytes:
		return m, fmt.Errorf("%w: a command of %d bytes; at most %d are taken", errFrame, command, limits.PulsarCommandBytes)
	}
	if int(command) > cap(*buf) {
		*buf = make([]byte, max(int(command), 512))
	}
	m.command, m.entry = (*buf)[:command], int(size-4-command)
	if _, err := io.ReadFull(r, m.command); err != nil {
		return m, err //nolint:wrapcheck // that of the connection
	}
	m.kind, err = numberOf(m.command)
	return m, err
}

// numberOf is which command it is: its first field.
func numberOf(command []byte) (protowire.Number, error) {
	kind, found := uint64(0), false
	for b := command; len(b) > 0; {
		n, t, size := protowire.ConsumeField(b)
		if size < 0 {
			return 0, fmt.Errorf("%w: a command that is no protobuf", errFrame)
		}
		if n == 1 && t == protowire.VarintType {
			_, _, tag := protowire.ConsumeTag(b)
			kind, _ = protowire.ConsumeVarint(b[tag:])
			found = true
		}
		b = b[size:]
	}
	if !found || kind == 0 || kind > 1<<10 {
		return 0, fmt.Errorf("%w: a command of kind %d", errFrame, kind)
	}
	return protowire.Number(kind), nil //nolint:gosec // judged
}

// field is the last field of that number that has bytes; nil: there is none.
func field(b []byte, number protowire.Number) []byte {
	v, _ := protowire.ConsumeBytes(lastField(b, number, protowire.BytesType))
	return v
}

// numberField is the last field of that number that is a number; 0: there is none.
func numberField(b []byte, number protowire.Number) uint64 {
	v, _ := protowire.ConsumeVarint(lastField(b, number, protowire.VarintType))
	return v
}

// lastField is what stands behind the tag of the last field of that number and type; nil: there is none. What is
// no protobuf ends it.
func lastField(b []byte, number protowire.Number, kind protowire.Type) (last []byte) {
	for len(b) > 0 {
		n, t, size := protowire.ConsumeField(b)
		if size < 0 {
			break
		}
		if n == number && t == kind {
			_, _, tag := protowire.ConsumeTag(b)
			last = b[tag:size]
		}
		b = b[size:]
	}
	return last
}

// without copies a message, some fields left out.
func without(b []byte, numbers ...protowire.Number) []byte {
	var rest []byte
	for len(b) > 0 {
		n, _, size := protowire.ConsumeField(b)
		if size < 0 {
			return rest
		}
		left := false
		for _, out := range numbers {
			left = left || n == out
		}
		if !left {
			rest = append(rest, b[:size]...)
		}
		b = b[size:]
	}
	return rest
}

func appendBytes(b []byte, number protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
}

func appendNumber(b []byte, number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
}

// newCommand is a command of some kind.
func newCommand(kind protowire.Number, body []byte) []byte {
	return appendBytes(appendNumber(nil, 1, uint64(kind)), kind, body) //nolint:gosec // not below zero
}

// writeHead writes a command, behind which so many bytes of an entry will follow.
func writeHead(w *bufio.Writer, command []byte, entry int) error {
	var head [8]byte
	binary.BigEndian.PutUint32(head[:], uint32(4+len(command)+entry)) //nolint:gosec // bounded
	binary.BigEndian.PutUint32(head[4:], uint32(len(command)))        //nolint:gosec // bounded
	_, _ = w.Write(head[:])
	_, err := w.Write(command) // it knows of what failed before
	return err                 //nolint:wrapcheck // that of the connection
}

// passOn sends what comes from r on to w, each command as edit leaves it. It returns the error that ends it.
// within, if there is one, is called with the size of a message that has begun to come, and not come whole, and
// with 0 when it has.
func passOn(r *bufio.Reader, w *bufio.Writer, edit func(wireMessage) ([]byte, error), within func(size uint32) error) error {
	var buf []byte
	for {
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err //nolint:wrapcheck // that of the connection
			}
		}
		slow := false
		if within != nil {
			head, err := r.Peek(4)
			if err != nil {
				return err //nolint:wrapcheck // that of the connection
			}
			if size := binary.BigEndian.Uint32(head); uint64(size)+4 > uint64(r.Buffered()) { //nolint:gosec // not below zero
				slow = true
				if err := within(max(size, 1)); err != nil {
					return err
				}
			}
		}
		m, err := readMessage(r, &buf)
		if err != nil {
			return err
		}
		command, err := edit(m)
		if err != nil {
			return err
		}
		if err := writeHead(w, command, m.entry); err != nil {
			return err
		}
		for left := m.entry; left > 0; {
			if r.Buffered() == 0 {
				if _, err := r.Peek(1); err != nil {
					return err //nolint:wrapcheck // that of the connection
				}
			}
			some, _ := r.Peek(min(left, r.Buffered()))
			n, err := w.Write(some)
			if err != nil {
				return err //nolint:wrapcheck // that of the connection
			}
			_, _ = r.Discard(n)
			left -= n
		}
		if slow {
			if err := within(0); err != nil {
				return err
			}
		}
	}
}
