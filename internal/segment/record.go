package segment

import (
	"encoding/binary"
	"fmt"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// AppendRecord encodes r behind b. base is the frame's time; now stands in for a zero timestamp.
func AppendRecord(b []byte, r *driver.Record, base, now int64) []byte {
	ts := r.Timestamp
	if ts == 0 {
		ts = now
	}
	d := ts - base
	b = binary.AppendUvarint(b, uint64(d<<1)^uint64(d>>63))
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
	for n := range f.Count {
		time, key, value, headers := c.lengths()
		off := f.Base + int64(n)
		var hs []driver.Header
		size := 0
		if headers != 0 {
			hs, size = c.headers(headers, off >= o.From)
		}
		k, v := c.bytes(key), c.bytes(value)
		if c.bad {
			return dst, o.Budget, fmt.Errorf("record %d of %d ends behind its frame: %w", n, f.Count, ErrFrame)
		}
		if off < o.From {
			continue
		}
		dst = append(dst, driver.Record{
			Offset: off, Timestamp: f.Time + (int64(time>>1) ^ -int64(time&1)), Key: k, Value: v, Headers: hs,
		})
		o.Budget -= size + len(k) + len(v)
		if o.Budget <= 0 {
			return dst, o.Budget, nil
		}
	}
	return dst, o.Budget, nil
}

// cursor reads a frame's records. After bad input it stays bad and yields zeros.
type cursor struct {
	b   []byte
	i   int
	bad bool
}

// lengths reads the four numbers at the start of a record. Mostly each is one byte.
func (c *cursor) lengths() (time, key, value, headers uint64) {
	if i := c.i; i+4 <= len(c.b) {
		if b := c.b[i : i+4 : i+4]; (b[0]|b[1]|b[2]|b[3])&0x80 == 0 {
			c.i += 4
			return uint64(b[0]), uint64(b[1]), uint64(b[2]), uint64(b[3])
		}
	}
	return c.uvarint(), c.uvarint(), c.uvarint(), c.uvarint()
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
