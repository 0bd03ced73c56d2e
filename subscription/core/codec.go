package core

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
)

// The stored form is a format number, the kind, and then the fields of that kind as variable-length
// integers and as strings after their length. Bytes of another format or kind, or a byte too many, are
// not ours: a version that writes such records says so in the definition of the subscription first,
// which this version refuses.
const format = 1

// Bounds of what is stored, so that a damaged length can't ask for memory.
const (
	MaxSet    = 64
	MaxAnswer = 1024
	MaxMember = 256
	MaxIDs    = 1024 // identities in one order

	MaxOrderingKey = 1024 // bytes of one that is not the key of its record

	MaxAttempts = 1 << 30 // at a record: one more could not be read
	maxRound    = 1 << 30
)

// Encode returns the stored form of r, for a header of a record whose key is carried. If that is also the key of r,
// which may be large, the stored form leaves it out. Attempts and texts beyond their bounds are cut to them:
// Decode reads whatever was encoded, or the shard that wrote it would never start again.
func Encode(r *Record, carried []byte) []byte {
	w := writer{b: make([]byte, 0, 64+len(r.Key)+len(r.Answer)+8*len(r.IDs))}
	w.b = append(w.b, format, byte(r.Kind))
	w.text(r.Set, MaxSet)
	w.num(r.At)
	if r.Kind == Order || r.Kind == Decided {
		w.text(r.Order, MaxMember)
		w.text(r.User, MaxMember)
		w.b = append(w.b, byte(r.Verb))
	}
	if r.Kind == Order {
		w.num(int64(len(r.IDs)))
		for _, id := range r.IDs {
			w.id(id)
		}
		if r.Verb == Edit || r.Verb == Retry {
			w.key(r.Key, carried)
		}
		return w.b
	}
	if r.Kind != Decided {
		w.num(r.By.Epoch)
		w.b = binary.AppendUvarint(w.b, r.By.Run)
		w.b = binary.AppendUvarint(w.b, r.By.Token)
		w.b = binary.AppendUvarint(w.b, r.Seq)
	}
	if r.Kind == Fence {
		w.text(r.Member, MaxMember)
		return w.b
	}
	w.id(r.ID)
	if r.Kind == Park || r.Kind == Dead || r.Kind == Known || r.Kind == Decided {
		w.key(r.Key, carried)
		w.num(r.Timestamp)
	}
	if r.Kind == Park || r.Kind == Dead || r.Kind == Try || r.Kind == Decided {
		w.num(int64(max(0, min(r.Attempts, MaxAttempts))))
		w.num(r.Due)
		w.num(r.Since)
		w.text(r.Answer, MaxAnswer)
	}
	if r.Kind == Dead {
		w.num(r.Copy)
		w.flag(r.Blocking)
		w.b = append(w.b, byte(r.Reason))
	}
	if r.Kind == Decided {
		w.flag(r.NoCopy)
		w.b = append(w.b, byte(r.Reason))
	}
	return w.b
}

// Decode reads the stored form; key is that of the record with the header. The error is
// fault.Corrupt.
func Decode(b, key []byte) (*Record, error) {
	d := reader{b: b}
	if f := d.byte(255); d.err == nil && f != format {
		return nil, fmt.Errorf("a journal record of format %d; this version reads %d: %w", f, format, fault.Corrupt)
	}
	r := &Record{Kind: Kind(d.byte(byte(kinds) - 1))}
	if r.Kind == 0 {
		d.fail("a kind of 0")
	}
	r.Set = d.text(MaxSet)
	r.At = d.num()
	if r.Kind == Order || r.Kind == Decided {
		r.Order, r.User = d.text(MaxMember), d.text(MaxMember)
		r.Verb = Verb(d.byte(byte(verbs) - 1))
	}
	if r.Kind == Order {
		for range d.count(MaxIDs) {
			r.IDs = append(r.IDs, d.id())
		}
		if r.Verb == Edit || r.Verb == Retry {
			r.Key = d.key(key)
		}
		if r.Verb == Edit && len(r.IDs) != 1 {
			d.fail("one value for several records, or for none")
		}
		return r, d.end()
	}
	if r.Kind != Decided {
		r.By = Tenure{Epoch: d.num(), Run: d.unsigned(), Token: d.unsigned()}
		r.Seq = d.unsigned()
	}
	if r.Kind == Fence {
		r.Member = d.text(MaxMember)
		return r, d.end()
	}
	r.ID = d.id()
	if r.Kind == Park || r.Kind == Dead || r.Kind == Known || r.Kind == Decided {
		r.Key = d.key(key)
		r.Timestamp = d.num()
	}
	if r.Kind == Park || r.Kind == Dead || r.Kind == Try || r.Kind == Decided {
		r.Attempts = d.count(MaxAttempts)
		r.Due, r.Since = d.num(), d.num()
		r.Answer = d.text(MaxAnswer)
	}
	if r.Kind == Dead {
		r.Copy, r.Blocking = d.num(), d.flag()
		if r.Reason = Reason(d.byte(byte(reasons) - 1)); r.Reason == 0 || r.Copy < 0 {
			d.fail("a dead letter without a reason or a copy")
		}
	}
	if r.Kind == Decided {
		r.NoCopy, r.Reason = d.flag(), Reason(d.byte(byte(reasons)-1))
	}
	return r, d.end()
}

type writer struct{ b []byte }

func (w *writer) num(n int64) { w.b = binary.AppendVarint(w.b, n) }

func (w *writer) text(s string, limit int) {
	s = cut(s, limit)
	w.b = append(binary.AppendUvarint(w.b, uint64(len(s))), s...)
}

func (w *writer) flag(v bool) {
	if v {
		w.b = append(w.b, 1)
	} else {
		w.b = append(w.b, 0)
	}
}

// key writes the ordering key: none, that of the record with the header, or another one. A key that is too long
// is cut wherever it is used: see MaxOrderingKey.
func (w *writer) key(key, carried []byte) {
	switch {
	case key == nil:
		w.b = append(w.b, noKey)
	case carried != nil && bytes.Equal(key, carried):
		w.b = append(w.b, carriedKey)
	default:
		key = key[:min(len(key), MaxOrderingKey)]
		w.b = append(w.b, otherKey)
		w.b = append(binary.AppendUvarint(w.b, uint64(len(key))), key...)
	}
}

const (
	noKey byte = iota
	carriedKey
	otherKey // of definitions that are ordered by a function: earlier formats don't know it
)

func (d *reader) key(carried []byte) []byte {
	switch d.byte(otherKey) {
	case carriedKey:
		return append([]byte{}, carried...)
	case otherKey:
		return append([]byte{}, d.text(MaxOrderingKey)...)
	}
	return nil
}

func (w *writer) id(id ID) {
	w.num(int64(id.Storage))
	w.num(int64(id.Partition))
	w.num(id.Offset)
	w.num(int64(id.Round))
}

// reader takes fields off b; after the first fault all are zero.
type reader struct {
	b   []byte
	err error
}

func (d *reader) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("a journal record holds %s: %w", what, fault.Corrupt)
	}
	d.b = nil
}

func (d *reader) end() error {
	if len(d.b) > 0 {
		d.fail("more than its fields")
	}
	return d.err
}

func (d *reader) byte(limit byte) byte {
	if len(d.b) == 0 {
		d.fail("too few bytes")
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	if v > limit {
		d.fail(fmt.Sprintf("the number %d where at most %d is known", v, limit))
		return 0
	}
	return v
}

func (d *reader) flag() bool { return d.byte(1) == 1 }

func (d *reader) unsigned() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("a number that is cut off")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *reader) num() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("a number that is cut off")
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads a number from 0 to limit.
func (d *reader) count(limit int) int {
	v := d.num()
	if v < 0 || v > int64(limit) {
		d.fail("a count out of its bounds")
		return 0
	}
	return int(v)
}

func (d *reader) text(limit int) string {
	n := d.unsigned()
	if n > uint64(limit) || n > uint64(len(d.b)) {
		d.fail("a text that is too long")
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *reader) id() ID {
	id := ID{Origin: Origin{Storage: int32(d.count(1 << 20)), Partition: int32(d.count(1 << 20)), Offset: d.num()}, Round: d.count(maxRound)}
	if id.Offset < 0 {
		d.fail("a negative offset")
	}
	return id
}
