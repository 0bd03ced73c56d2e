package fileregistry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry/driver"
)

// The highest header of the two files is the one in force, and a header that can't be read may have been that
// one. So each file has it twice, in sectors of their own: what damages one leaves the other.
//
// Both are written at once and synced before the generation is used. A power loss meanwhile may
// leave one of them, or one of the generation that lay in the file before: the higher one is taken,
// and is as good as both, because the snapshot was synced before.
const secondHeader = 2048

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
	return h, nil
}

// page is the first page of a generation's file.
func (h *header) page() []byte {
	b := make([]byte, pageSize)
	copy(b, h.encode())
	copy(b[secondHeader:], h.encode())
	return b
}

var errNoHeader = errors.New("it has no journal header")

// readHeader is the header that counts in a file; errNoHeader when none was ever written whole.
func readHeader(f vfs.File) (header, error) {
	b := make([]byte, pageSize)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return header{}, readError(err)
	}
	first, bad := decodeHeader(b)
	second, badToo := decodeHeader(b[secondHeader:])
	switch {
	case bad == nil && badToo == nil && second.gen > first.gen, bad != nil && badToo == nil:
		return second, nil
	case bad == nil:
		return first, nil
	case neverWritten(b, n):
		return header{}, fmt.Errorf("%w: %w", errNoHeader, fault.Corrupt)
	}
	return header{}, fmt.Errorf("%w, and its copy is no better; restore the directory from a backup: %w", bad, fault.Corrupt)
}

// neverWritten says whether a first page, of which there are n bytes, is still as it was prepared.
// Damage in one place does not make it look like a header that was lost.
func neverWritten(b []byte, n int) bool {
	zeros := make([]byte, len(b))
	if n < len(b) {
		return bytes.Equal(b, zeros)
	}
	for _, pair := range [][2]int{{0, secondHeader}, {secondHeader, 0}} {
		blank, other := b[pair[0]:][:headerSize], b[pair[1]:]
		if bytes.Equal(blank, zeros[:headerSize]) && !bytes.HasPrefix(other, []byte(journalMagic)) {
			return true
		}
	}
	return false
}

func writeSynced(f vfs.File, b []byte) error {
	if _, err := f.WriteAt(b, 0); err != nil {
		return err
	}
	return f.SyncData()
}
