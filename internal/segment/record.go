package segment

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// AppendRecord encodes r behind b. base is the frame's time; now stands in for a zero timestamp.
func AppendRecord(b []byte, r *driver.Record, base, now int64) []byte {
	ts := r.Timestamp
	if ts == 0 {
		ts = now
	}
	b = binary.AppendVarint(b, ts-base)
	b = appendLen(b, r.Key)
	b = appendLen(b, r.Value)
	b = binary.AppendUvarint(b, uint64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		b = binary.AppendUvarint(b, uint64(len(h.Name)))
		b = append(b, h.Name...)
		b = appendLen(b, h.Value)
		b = append(b, h.Value...)
	}
	b = append(b, r.Key...)
	return append(b, r.Value...)
}

func appendLen(b, v []byte) []byte {
	if v == nil {
		return append(b, 0)
	}
	return binary.AppendUvarint(b, uint64(len(v))+1)
}

// RecordsOptions bound what Decode returns.
type RecordsOptions struct {
	From   int64 // offsets below it are skipped
	Budget int   // bytes of keys, values and headers; the record that passes it is the last
}

// Decode appends the records of a frame whose checksum was verified to dst. The records are
// slices of b. It returns what is left of the budget.
func Decode(b []byte, f *Frame, o RecordsOptions, dst []driver.Record) ([]driver.Record, int, error) {
	c := cursor{b: b, i: FrameHeader}
	skip := max(o.From-f.Base, 0)
	if f.Count > cap(dst)-len(dst) {
		dst = slices.Grow(dst, expected(len(b), int64(f.Count)-skip, f.Count, o.Budget))
	}
	for n := range f.Count {
		if int64(n) < skip {
			var passed driver.Record
			if c.record(&passed, false); c.bad {
				return dst, o.Budget, beyond(n, f)
			}
			continue
		}
		dst = append(dst, driver.Record{}) // filled in place: a record is large
		r := &dst[len(dst)-1]
		size := c.record(r, true)
		if c.bad {
			return dst[:len(dst)-1], o.Budget, beyond(n, f)
		}
		r.Offset = f.Base + int64(n)
		r.Timestamp += f.Time
		if o.Budget -= size; o.Budget <= 0 {
			break
		}
	}
	return dst, o.Budget, nil
}

func beyond(n int, f *Frame) error {
	return fmt.Errorf("record %d of %d ends behind its frame: %w", n, f.Count, ErrFrame)
}

// expected is about how many records Decode returns; it is bounded by the bytes that there are.
func expected(length int, wanted int64, count, budget int) int {
	body := max(length-FrameHeader, 0)
	average := max(body/max(count, 1)-minRecord, 1)
	return int(max(min(wanted, int64(body/minRecord), int64(budget/average)+1), 0))
}

// cursor reads a frame's records. After bad input it stays bad and yields zeros.
type cursor struct {
	b   []byte
	i   int
	bad bool
}

// minRecord is what an empty record takes.
const minRecord = 4

// record reads one record into r, with its time relative to the frame's, and returns its size as
// budgets count it. Mostly each of the four numbers in front is one byte and there are no headers.
func (c *cursor) record(r *driver.Record, keep bool) int {
	if i := c.i; i+minRecord <= len(c.b) {
		if h := binary.LittleEndian.Uint32(c.b[i:]); h&0xff808080 == 0 {
			key, value := int(h>>8&0x7f), int(h>>16&0x7f)
			k := i + minRecord + max(key-1, 0)
			v := k + max(value-1, 0)
			if v > len(c.b) {
				c.bad = true
				return 0
			}
			if key != 0 {
				r.Key = c.b[i+minRecord : k : k]
			}
			if value != 0 {
				r.Value = c.b[k:v:v]
			}
			r.Timestamp = int64(h&0x7f>>1) ^ -int64(h&1)
			c.i = v
			return v - i - minRecord
		}
	}
	return c.longRecord(r, keep)
}

func (c *cursor) longRecord(r *driver.Record, keep bool) int {
	time, key, value, headers := c.uvarint(), c.uvarint(), c.uvarint(), c.uvarint()
	size := 0
	if headers != 0 {
		r.Headers, size = c.headers(headers, keep)
	}
	r.Timestamp = int64(time>>1) ^ -int64(time&1)
	r.Key, r.Value = c.bytes(key), c.bytes(value)
	return size + len(r.Key) + len(r.Value)
}

func (c *cursor) uvarint() uint64 {
	if c.i < len(c.b) && c.b[c.i] < 0x80 {
		c.i++
		return uint64(c.b[c.i-1])
	}
	return c.longUvarint()
}

func (c *cursor) longUvarint() uint64 {
	if c.i > len(c.b) {
		c.bad = true
		return 0
	}
	v, n := binary.Uvarint(c.b[c.i:])
	if n <= 0 {
		c.bad = true
		return 0
	}
	c.i += n
	return v
}

// bytes takes a field whose length was stored plus one; 0 is nil.
func (c *cursor) bytes(n uint64) []byte {
	if n == 0 {
		return nil
	}
	n--
	if n > uint64(len(c.b)-c.i) {
		c.bad = true
		return nil
	}
	j := c.i + int(n)
	v := c.b[c.i:j:j]
	c.i = j
	return v
}

func (c *cursor) headers(n uint64, keep bool) (hs []driver.Header, size int) {
	if n > uint64(len(c.b)-c.i) { // a header takes two bytes at least
		c.bad = true
		return nil, 0
	}
	if keep {
		hs = make([]driver.Header, 0, n)
	}
	for range n {
		name := c.bytes(c.uvarint() + 1)
		value := c.bytes(c.uvarint())
		if c.bad {
			return nil, 0
		}
		size += len(name) + len(value)
		if keep {
			hs = append(hs, driver.Header{Name: string(name), Value: value})
		}
	}
	return hs, size
}
