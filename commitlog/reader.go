package commitlog

import (
	"context"
	"io"
)

// ReaderOptions are the options of NewReader; nil is the zero value.
type ReaderOptions struct {
	MaxBytes int // soft budget of one Next; 0: 256 KiB
	// Reuse lets the records of a Next be overwritten by the following one, which saves the
	// memory of all of them. Without it they belong to the caller.
	Reuse bool
}

// Reader reads one partition in order and waits at its end. It starts no goroutine and holds
// nothing, so there is no Close. One goroutine at a time may use it.
type Reader struct {
	t         *Topic
	partition int
	offset    int64
	opts      ReaderOptions
	recs      []Record
	buf       []byte
}

// NewReader reads partition from offset from on.
func (t *Topic) NewReader(partition int, from int64, opts *ReaderOptions) *Reader {
	r := &Reader{t: t, partition: partition, offset: from}
	if opts != nil {
		r.opts = *opts
	}
	if r.opts.MaxBytes <= 0 {
		r.opts.MaxBytes = defaultReadBytes
	}
	if r.opts.Reuse {
		r.buf = make([]byte, r.opts.MaxBytes)
	}
	return r
}

// Offset is where the next record is looked for: after all that Next returned, past gaps.
func (r *Reader) Offset() int64 { return r.offset }

// SetOffset makes the following Next read from offset on.
func (r *Reader) SetOffset(offset int64) { r.offset = offset }

// Next returns the following records, at least one, and waits for them. It is io.EOF when the
// topic is sealed and all was read, *OutOfRangeError when the offset was trimmed or never was,
// and *CorruptError before damaged records; nothing is skipped until SetOffset says so.
func (r *Reader) Next(ctx context.Context) ([]Record, error) {
	for waited := false; ; waited = true {
		recs, next, err := r.t.Read(ctx, r.partition, r.offset, r.recs[:0], &ReadOptions{MaxBytes: r.opts.MaxBytes, Buf: r.buf})
		if r.opts.Reuse {
			r.recs = recs
		}
		if len(recs) > 0 { // an error that came with them comes again
			r.offset = next
			return recs, nil
		}
		if err != nil {
			return nil, err
		}
		if next > r.offset {
			r.offset = next
			continue
		}
		if waited {
			b, err := r.t.Bounds(ctx, r.partition)
			if err != nil {
				return nil, err
			}
			if b.Sealed && r.offset >= b.Next {
				return nil, io.EOF
			}
		}
		if err := r.t.Wait(ctx, r.partition, r.offset); err != nil {
			return nil, err
		}
	}
}
