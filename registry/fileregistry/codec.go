package fileregistry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/ringfence/ringfence/registry/driver"
)

// The bytes of a journal file, little-endian. LSNs go on through all generations.
//
//	0              2048                4096
//	+--------------+-------------------+-----------------+------------+
//	| header       | the same again    | snapshot        | frames …   |
//	+--------------+-------------------+-----------------+------------+
//	                                                     a multiple of 4096
//
//	header   0 magic "RFREGJN1"    8 crc32c of bytes 12–63   12 format    16 generation
//	        24 LSN of first frame 32 revision of snapshot    40 nonce
//	        44 crc32c of snapshot 48 length of snapshot
//	frame    0 crc32c of the rest, started from the nonce     4 length of ops
//	         8 LSN of this frame  16 LSN known to be durable when it was written
//	        24 revision before its first op                  32 ops, zeros up to a multiple of 8
//	op       kind (1 put, 2 delete, 3 open, 4 end, 5 entry; +0x40 quiet), then strings as
//	         uvarint length and bytes, numbers as uvarints
//
// Of two headers in a file the higher valid one counts, of two files the higher generation. A file in
// which neither header reads may have been the newest, so the registry is not opened then. A version is
// "<nonce in hex>-<revision in hex>": the nonce keeps a version from being given out twice when a power
// loss takes back what was never durable.
// The page "control" is drawn in control.go.

// A frame is one write of one process: a header and ops. It is applied as a whole.
const (
	journalMagic = "RFREGJN1"
	format       = 1
	headerSize   = 64 // within one sector: written as a whole or not at all
	pageSize     = 4096
	frameHeader  = 32
	maxFrame     = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errTorn = errors.New("no valid frame")

// frame is a decoded frame.
type frame struct {
	lsn    uint64
	synced uint64 // the LSN known to be durable when it was written
	rev    uint64 // revision before its first op
	ops    []byte
	size   int // with header and padding
}

// beginFrame reserves the header; the caller appends ops and calls sealFrame.
func beginFrame(b []byte) []byte { return append(b[:0], make([]byte, frameHeader)...) }

func sealFrame(b []byte, nonce uint32, lsn, synced, rev uint64) []byte {
	le := binary.LittleEndian
	le.PutUint32(b[4:], uint32(len(b)-frameHeader))
	le.PutUint64(b[8:], lsn)
	le.PutUint64(b[16:], synced)
	le.PutUint64(b[24:], rev)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	le.PutUint32(b, crc32.Update(nonce, castagnoli, b[4:]))
	return b
}

// frameSize is how long the frame of that LSN is that b begins with, if it is one.
func frameSize(b []byte, lsn uint64) (int, error) {
	le := binary.LittleEndian
	if len(b) < frameHeader || le.Uint64(b[8:]) != lsn {
		return 0, errTorn
	}
	n := int(le.Uint32(b[4:]))
	if n == 0 || n > maxFrame {
		return 0, errTorn
	}
	return (frameHeader + n + 7) / 8 * 8, nil
}

// parseFrame reads the frame of that LSN at the start of b.
func parseFrame(b []byte, nonce uint32, lsn uint64) (frame, error) {
	size, err := frameSize(b, lsn)
	if err != nil || size > len(b) {
		return frame{}, errTorn
	}
	le := binary.LittleEndian
	n := int(le.Uint32(b[4:]))
	if crc32.Update(nonce, castagnoli, b[4:size]) != le.Uint32(b) {
		return frame{}, errTorn
	}
	return frame{lsn: lsn, synced: le.Uint64(b[16:]), rev: le.Uint64(b[24:]), ops: b[frameHeader : frameHeader+n], size: size}, nil
}

// Kinds of ops.
const (
	opPut     = 1 // key, session, value; its version follows from its revision
	opDelete  = 2 // key
	opOpen    = 3 // a session starts
	opEnd     = 4 // a session ends and its entries vanish
	opEntry   = 5 // in snapshots: key, session, value, version
	flagQuiet = 0x40
)

type op struct {
	kind    byte
	quiet   bool
	key     string // or the session's ID
	session string
	value   []byte
	version driver.Version
	info    sessionInfo
}

// sessionInfo is a session as the journal has it.
type sessionInfo struct {
	id     string
	handle string // of the registry handle that opened it
	slot   int
	tag    uint64
	ttl    int64 // nanoseconds
}

func appendOp(b []byte, o *op) []byte {
	kind := o.kind
	if o.quiet {
		kind |= flagQuiet
	}
	b = append(b, kind)
	b = appendBytes(b, o.key)
	switch o.kind {
	case opPut, opEntry:
		b = appendBytes(b, o.session)
		b = binary.AppendUvarint(b, uint64(len(o.value)))
		b = append(b, o.value...)
		if o.kind == opEntry {
			b = appendBytes(b, string(o.version))
		}
	case opOpen:
		b = appendBytes(b, o.info.handle)
		for _, n := range []uint64{uint64(o.info.slot), o.info.tag, uint64(o.info.ttl)} {
			b = binary.AppendUvarint(b, n)
		}
	}
	return b
}

func appendBytes(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// nextOp reads one op; its strings and value are copies.
func nextOp(b []byte) (op, []byte, error) {
	r := reader{b: b}
	kind := r.byte()
	o := op{kind: kind &^ flagQuiet, quiet: kind&flagQuiet != 0}
	o.key = string(r.bytes())
	switch o.kind {
	case opPut, opEntry:
		o.session = string(r.bytes())
		o.value = append([]byte(nil), r.bytes()...)
		if o.kind == opEntry {
			o.version = driver.Version(r.bytes())
		}
	case opOpen:
		o.info = sessionInfo{id: o.key, handle: string(r.bytes())}
		slot := r.uvarint()
		if slot >= slotCount {
			r.fail()
			slot = 0
		}
		o.info.slot = int(slot)
		o.info.tag, o.info.ttl = r.uvarint(), int64(r.uvarint())
	case opDelete, opEnd:
	default:
		r.fail()
	}
	if r.bad {
		return op{}, nil, fmt.Errorf("an op of kind %d that can't be decoded", o.kind)
	}
	return o, r.b, nil
}

type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() { r.bad, r.b = true, nil }

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	s := r.b[:n]
	r.b = r.b[n:]
	return s
}
