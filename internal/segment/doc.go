// Package segment is the byte layout of the file log: segments, frames, records, index files.
//
// It reads and writes bytes and knows nothing of files, processes or locks. All integers are
// little-endian. A place in a log is a Pos: the segment's number and the byte in its file.
//
// # Segment file
//
//	+--------------------------------+ 0
//	| header, a multiple of 4 KiB    |
//	+--------------------------------+ header length
//	| frame | pad to 8 | frame | ... |  frames of all partitions, interleaved
//	+--------------------------------+ written
//	| zeros, or bytes of an earlier  |  (their checksums can't hold here)
//	| life of a recycled file        |
//	+--------------------------------+ size - header length
//	| copy of the header             |
//	+--------------------------------+ size, fixed when the segment is made
//
// # Segment header
//
//	 0  crc32c u32      of all that follows, padding included
//	 4  length u32      of the header with its padding
//	 8  magic  [8]byte  "RFSEGMT1"
//	16  version u32     1
//	20  partitions u32
//	24  topic id u64    random, chosen when the topic is made
//	32  number u64      1, 2, 3 … without gaps
//	40  size i64        of the file
//	48  previous end i64  where the frames of the segment before end; what is behind is void
//	56  synced Pos      known to be on stable storage when the segment was started
//	64  created i64     Unix milliseconds
//	72  salt u64        random
//	80  producers u32   bytes of what is said of producers behind the bases
//	84  flags u32       1: sealed before this segment
//	88  boot u64        of which run of the host uptime is
//	96  uptime i64      milliseconds of the host's monotonic clock when it was created
//	104 reserved u64
//	112 base i64 × partitions   next offset of each partition when the segment starts
//	    producers, see the type Producers
//
// # Frame
//
//	 0  crc32c u32      of all that follows, seeded with the segment's epoch and the frame's place
//	 4  length u32      of the frame, header included, padding not
//	 8  previous u32    crc32c of the frame before (of the segment header for the first one)
//	12  version u8      1
//	13  kind u8         1 records, 2 seal
//	14  flags u16       0
//	16  partition u32
//	20  count u32       records; 0: a repeated append of a producer told of a higher epoch
//	24  base i64        offset of the first record; the others follow densely
//	32  synced Pos      known to be on stable storage when the frame was written
//	40  time i64        Unix milliseconds that the records' times are relative to
//	48  max time i64    the latest of the records
//	56  producer u64    0: not idempotent
//	64  sequence i64
//	72  producer epoch i32
//	76  header crc32c u32  of bytes 4 to 75, seeded alike
//	80  records
//
// The seed makes a frame valid in one place of one segment only, so stale bytes of a recycled
// file never pass. The header's own checksum makes it safe to walk a segment, and to index it,
// without reading the records. The previous checksum chains the frames, so that a frame that an earlier,
// dead writer left behind the end does not become part of the log when others write in front
// of it.
//
// # Record
//
//	time     varint, zigzag, relative to the frame's time
//	key      varint, length + 1; 0: nil
//	value    varint, length + 1; 0: nil
//	headers  varint, how many
//	per header: name length varint, name, value length + 1 varint, value
//	key bytes, value bytes
//
// # Index file
//
// It belongs to a closed segment and can always be rebuilt from it.
//
//	 0  crc32c u32      of all that follows
//	 4  version u32     1
//	 8  magic [8]byte   "RFINDEX1"
//	16  number u64      of the segment
//	24  segment crc u32 of the segment's header: the index fits that life of the file only
//	28  partitions u32
//	32  end i64         where the frames of the segment end
//	40  entries u64
//	48  per partition: start u32, count u32, base i64, max time i64
//	    entries: offset - base u32, byte u32
package segment

import "fmt"

// Pos is a place in a log: the number of a segment and a byte in its file. Later is larger.
type Pos uint64

// At makes a Pos. off must be below 4 GiB.
func At(number uint64, off int64) Pos { return Pos(number<<32 | uint64(off)) }

// Number is the segment's number.
func (p Pos) Number() uint64 { return uint64(p) >> 32 }

// Off is the byte in the segment's file.
func (p Pos) Off() int64 { return int64(p & 0xffffffff) }

func (p Pos) String() string { return fmt.Sprintf("%d:%d", p.Number(), p.Off()) }

// Align is what the places of frames are a multiple of.
const Align = 8

// AlignUp is the next place at or after n where a frame can start.
func AlignUp(n int64) int64 { return (n + Align - 1) &^ (Align - 1) }

// Epoch seeds the checksums of the frames of one segment. It follows from the topic and the
// segment's number, so that frames can be checked even when the segment's header is damaged.
func Epoch(topicID, number uint64) uint64 {
	x := topicID ^ number*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
