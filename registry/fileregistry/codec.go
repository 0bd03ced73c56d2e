package fileregistry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/ringfence/ringfence/registry/driver"
)

// The journal file (little endian; docs/formats-fileregistry.md draws it).
//
//	0     header    magic, crc, format, gen, base LSN, revision, nonce, snapshot length and crc
//	4096  snapshot  ops: the whole state at the base LSN
//	data  frames    from the next multiple of 4096 on; LSN = base + distance from there
//
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

type header struct {
	gen     uint64
	base    uint64 // LSN of the first frame
	rev     uint64 // revision of the snapshot
	nonce   uint32 // part of the versions given out in this generation, and of every frame's checksum
	snapLen uint64
	snapCRC uint32
}

// dataStart is where the frames begin.
func (h *header) dataStart() int64 {
	return (pageSize + int64(h.snapLen) + pageSize - 1) / pageSize * pageSize
}

func (h *header) offset(lsn uint64) int64 { return h.dataStart() + int64(lsn-h.base) }

// version is the version of the entry that the op with that revision put. The nonce makes it
// different from one of a transaction that a power loss took back.
func (h *header) version(rev uint64) driver.Version {
	var b [24]byte
	out := strconv.AppendUint(b[:0], uint64(h.nonce), 16)
	out = append(out, '-')
	return driver.Version(strconv.AppendUint(out, rev, 16))
}

func (h *header) encode() []byte {
	b := make([]byte, headerSize)
	copy(b, journalMagic)
	le := binary.LittleEndian
	le.PutUint32(b[12:], format)
	le.PutUint64(b[16:], h.gen)
	le.PutUint64(b[24:], h.base)
	le.PutUint64(b[32:], h.rev)
	le.PutUint32(b[40:], h.nonce)
	le.PutUint32(b[44:], h.snapCRC)
	le.PutUint64(b[48:], h.snapLen)
	le.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
	return b
}

func decodeHeader(b []byte) (header, error) {
	le := binary.LittleEndian
	if len(b) < headerSize || string(b[:8]) != journalMagic {
		return header{}, errors.New("it does not start with a journal header")
	}
	if f := le.Uint32(b[12:]); f != format {
		return header{}, fmt.Errorf("it is of format %d, this version reads format %d", f, format)
	}
	if le.Uint32(b[8:]) != crc32.Checksum(b[12:headerSize], castagnoli) {
		return header{}, errors.New("the checksum of its header is wrong")
	}
	h := header{
		gen: le.Uint64(b[16:]), base: le.Uint64(b[24:]), rev: le.Uint64(b[32:]),
		nonce: le.Uint32(b[40:]), snapCRC: le.Uint32(b[44:]), snapLen: le.Uint64(b[48:]),
	}
	if h.snapLen > 1<<40 {
		return header{}, fmt.Errorf("it claims a snapshot of %d bytes", h.snapLen)
	}
	return h, nil
}

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

// parseFrame reads the frame of that LSN at the start of b.
func parseFrame(b []byte, nonce uint32, lsn uint64) (frame, error) {
	le := binary.LittleEndian
	if len(b) < frameHeader || le.Uint64(b[8:]) != lsn {
		return frame{}, errTorn
	}
	n := int(le.Uint32(b[4:]))
	size := (frameHeader + n + 7) / 8 * 8
	if n == 0 || n > maxFrame || size > len(b) {
		return frame{}, errTorn
	}
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
	pid    int
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
		for _, n := range []uint64{uint64(o.info.slot), o.info.tag, uint64(o.info.ttl), uint64(o.info.pid)} {
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
		o.info.tag, o.info.ttl, o.info.pid = r.uvarint(), int64(r.uvarint()), int(r.uvarint())
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
