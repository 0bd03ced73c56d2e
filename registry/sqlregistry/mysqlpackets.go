package sqlregistry

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/ringfence/ringfence/internal/limits"
)

// packets follows what a server says, packet by packet, before the client library sees a byte of it:
// the library joins packets and makes room for columns as a server declares them, and reads beyond
// the end of a packet that is too short.
type packets struct {
	header [4]byte
	got    int // bytes of the header
	left   int // bytes of the packet that are still to come
	length int // of the packet
	head   [32]byte
	kept   int // bytes of head
	bytes  int64
	count  int // of the packets of this answer
	login  bool
	result bool // the answer may have columns
	shift  byte // what the server's numbers of packets are ahead of the library's
}

func refused(format string, args ...any) error {
	return fmt.Errorf("the server does not speak as MariaDB and MySQL do: "+format, args...)
}

// The commands of the protocol, of those that the library sends, that are answered by columns and rows.
const (
	comQuery   = 0x03
	comExecute = 0x17
)

// asked takes note of a packet that the library sends.
func (p *packets) asked(b []byte) {
	if len(b) > 4 && b[3] == 0 { // the first of a command
		*p = packets{result: b[4] == comQuery || b[4] == comExecute}
	}
}

// feed takes the bytes that come next, and corrects the numbers of packets in them.
func (p *packets) feed(b []byte) error {
	for len(b) > 0 {
		if p.left == 0 {
			if p.got == 3 {
				b[0] -= p.shift
			}
			p.header[p.got] = b[0]
			b = b[1:]
			if p.got++; p.got < len(p.header) {
				continue
			}
			if err := p.begin(); err != nil {
				return err
			}
			continue
		}
		n := min(p.left, len(b))
		p.kept += copy(p.head[p.kept:], b[:n])
		p.left -= n
		b = b[n:]
		if p.left == 0 {
			p.got = 0
			if err := p.ended(); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin begins a packet.
func (p *packets) begin() error {
	p.length = int(p.header[0]) | int(p.header[1])<<8 | int(p.header[2])<<16
	p.left, p.kept = p.length, 0
	p.bytes += int64(len(p.header) + p.length)
	p.count++
	switch {
	case p.length == 0:
		return refused("a packet without anything in it")
	case p.length > limits.SQLPacketBytes:
		return refused("a packet of %d bytes; at most %d are taken", p.length, limits.SQLPacketBytes)
	case p.bytes > limits.SQLAnswerBytes:
		return refused("an answer of more than %d bytes", limits.SQLAnswerBytes)
	case p.count > limits.SQLAnswerRows:
		return refused("an answer of more than %d rows", limits.SQLAnswerRows)
	}
	return nil
}

// ended looks at how a packet began that is there as a whole.
func (p *packets) ended() error {
	head := p.head[:p.kept]
	switch {
	case head[0] == 0xff:
		return checkError(head)
	case head[0] == 0 && (p.login || p.count == 1):
		return checkOK(head, p.length)
	case !p.result || p.count > 1 || head[0] == 0xfb: // 0xfb: it wants a file of ours, which the library refuses
		return nil
	}
	columns, width := number64(head)
	if width == 0 || width > len(head) {
		return refused("a number of columns without an end")
	}
	if columns > limits.SQLColumns {
		return refused("an answer of %d columns; at most %d are taken", columns, limits.SQLColumns)
	}
	return nil
}

// checkOK looks at the answer of a statement without rows: two numbers, and a state of two bytes.
func checkOK(head []byte, length int) error {
	at := 1
	for range 2 {
		if at >= len(head) {
			return refused("an answer of %d bytes", length)
		}
		_, width := number64(head[at:])
		at += max(width, 1)
	}
	if at+2 > len(head) {
		return refused("an answer of %d bytes", length)
	}
	return nil
}

func checkError(head []byte) error {
	if len(head) < 4 || head[3] == '#' && len(head) < 9 {
		return refused("an error of %d bytes", len(head))
	}
	return nil
}

// number64 is a number as the protocol writes it, and its width; 0: it is none.
func number64(b []byte) (n uint64, width int) {
	var whole [9]byte
	copy(whole[:], b)
	switch b[0] {
	case 0xfb, 0xff:
		return 0, 0
	case 0xfc:
		return uint64(binary.LittleEndian.Uint16(whole[1:])), 3
	case 0xfd:
		return uint64(binary.LittleEndian.Uint32(whole[1:]) & 0xffffff), 4
	case 0xfe:
		return binary.LittleEndian.Uint64(whole[1:]), 9
	}
	return uint64(b[0]), 1
}

const ableTLS = 1 << 11

// greetingOf says of a server's first packet whether it offers TLS, or that the library could not read it.
func greetingOf(p []byte) (offers bool, err error) {
	if p[0] == 0xff {
		return false, checkError(p)
	}
	const scramble, first, upper, second = 4 + 8 + 1, 2, 1 + 2 + 2 + 1 + 6 + 4, 13
	at := bytes.IndexByte(p, 0)
	if at < 1 || len(p) < at+1+scramble+first {
		return false, refused("a greeting of %d bytes", len(p))
	}
	at += 1 + scramble
	offers = binary.LittleEndian.Uint16(p[at:])&ableTLS != 0
	if at += first; len(p) > at && len(p) < at+upper+second {
		return false, refused("a greeting of %d bytes", len(p))
	}
	return offers, nil
}
