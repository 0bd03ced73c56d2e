package commitlog

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// Topic is an open storage topic. Its methods may be called concurrently.
type Topic struct {
	d     driver.Topic
	c     TopicConfig
	added int       // partitions behind those of c that the log has; see First
	waits sync.Pool // of *appendWait
}

// Config is what the topic was created with, with the retention that it has now, see Log.AlterTopic.
func (t *Topic) Config() TopicConfig {
	c := t.d.Config()
	c.Partitions = t.c.Partitions
	return c
}

// First is the storage topic with its first partitions only. It replaces the handle that it was made from,
// and is the handle itself when that has as many. In some logs an operator can add partitions to a topic in
// place: no record is routed to those, and they are no part of ours.
func (t *Topic) First(partitions int) *Topic {
	added := t.c.Partitions - partitions
	if added <= 0 || partitions < 1 {
		return t
	}
	c := t.c
	c.Partitions = partitions
	return &Topic{d: t.d, c: c, added: t.added + added}
}

// ID tells this storage topic from others that had, or will have, its name; "": the log does not say.
func (t *Topic) ID() string {
	if d, ok := t.d.(driver.Identified); ok {
		return d.ID()
	}
	return ""
}

// AppendOptions are the options of Append and AppendAsync.
type AppendOptions struct {
	// Producer makes the append idempotent: the same (ID, Sequence) is stored once.
	Producer Producer
}

type appendResult struct {
	first int64
	err   error
}

// appendWait is where one Append waits for its answer. They are reused: a blocking append
// allocates nothing.
type appendWait struct {
	req  driver.AppendRequest
	ch   chan appendResult
	done func(first int64, err error)
}

func (t *Topic) newWait() *appendWait {
	if w, ok := t.waits.Get().(*appendWait); ok {
		return w
	}
	w := &appendWait{ch: make(chan appendResult, 1)}
	w.done = func(first int64, err error) { w.ch <- appendResult{first, err} }
	return w
}

// answer takes the result that arrived and makes w free for the next Append.
func (t *Topic) answer(w *appendWait, r appendResult) (int64, error) {
	w.req = driver.AppendRequest{}
	t.waits.Put(w)
	return r.first, r.err
}

// Append writes records to one partition as one atomic batch and waits until it is durable at
// the log's level. It returns the first offset; the others follow densely or with gaps, as the
// backend has it. When ctx ends first the error is ErrUnknown: the batch may still be stored. A
// backend may finish a write and sync of its own that it has begun, and then tells its outcome.
// Once it has returned, records are the caller's again.
func (t *Topic) Append(ctx context.Context, partition int, records []Record, opts *AppendOptions) (int64, error) {
	if err := t.check(partition, records); err != nil {
		return 0, err
	}
	w := t.newWait()
	w.req = driver.AppendRequest{Partition: partition, Records: records}
	if opts != nil {
		w.req.Producer = opts.Producer
	}
	if d, ok := t.d.(driver.InlineAppender); ok {
		d.AppendInline(ctx, &w.req, w.done)
	} else {
		if ctx.Done() != nil { // the driver may still read them when the caller has given up
			w.req.Records = CloneRecords(records)
		}
		t.d.Append(ctx, &w.req, w.done)
	}
	if ctx.Done() == nil {
		return t.answer(w, <-w.ch)
	}
	select {
	case r := <-w.ch:
		return t.answer(w, r)
	case <-ctx.Done():
	}
	select {
	case r := <-w.ch:
		return t.answer(w, r)
	default: // w is not reused: its answer is still to come
		return 0, fmt.Errorf("append to topic %q partition %d: %w before the answer came: %w", t.c.Name, partition, ErrUnknown, ctx.Err())
	}
}

// AppendAsync queues records and returns; done is called exactly once, with the first offset or
// the error, and must not block. records must stay untouched until then. It blocks only while
// the log's write buffer is full.
func (t *Topic) AppendAsync(ctx context.Context, partition int, records []Record, opts *AppendOptions, done func(first int64, err error)) {
	if err := t.check(partition, records); err != nil {
		done(0, err)
		return
	}
	if err := ctx.Err(); err != nil {
		done(0, fmt.Errorf("append to topic %q partition %d: %w: %w", t.c.Name, partition, ErrNotAppended, err))
		return
	}
	req := driver.AppendRequest{Partition: partition, Records: records}
	if opts != nil {
		req.Producer = opts.Producer
	}
	t.d.Append(ctx, &req, done)
}

func (t *Topic) check(partition int, records []Record) error {
	if err := t.checkPartition(partition); err != nil {
		return err
	}
	if len(records) == 0 || len(records) > MaxBatchRecords {
		return fmt.Errorf("a batch of %d records; expected 1 to %d: %w", len(records), MaxBatchRecords, ErrInvalid)
	}
	total := 0
	for i := range records {
		r := &records[i]
		size := RecordBytes(r)
		if len(r.Key) > MaxKeyBytes {
			return fmt.Errorf("a key of %d bytes; at most %d are allowed: %w", len(r.Key), MaxKeyBytes, ErrInvalid)
		}
		if len(r.Headers) > MaxHeaders {
			return fmt.Errorf("a record with %d headers; at most %d are allowed: %w", len(r.Headers), MaxHeaders, ErrInvalid)
		}
		if size > MaxRecordBytes {
			return fmt.Errorf("a record of %d bytes; at most %d are allowed (store large bodies elsewhere and send a reference): %w",
				size, MaxRecordBytes, ErrInvalid)
		}
		total += size
	}
	if total > MaxBatchBytes {
		return fmt.Errorf("a batch of %d bytes; at most %d are allowed: %w", total, MaxBatchBytes, ErrInvalid)
	}
	return nil
}

// CloneRecords copies records and all that they point to.
func CloneRecords(records []Record) []Record {
	records = slices.Clone(records)
	for i := range records {
		r := &records[i]
		r.Key, r.Value, r.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), slices.Clone(r.Headers)
		for j := range r.Headers {
			r.Headers[j].Value = bytes.Clone(r.Headers[j].Value)
		}
	}
	return records
}

// RecordBytes is the size of a record as the limits count it: key, value and headers.
func RecordBytes(r *Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Name) + len(r.Headers[i].Value)
	}
	return n
}

func (t *Topic) checkPartition(p int) error {
	if p < 0 || p >= t.c.Partitions {
		return fmt.Errorf("topic %q has partitions 0 to %d; %d is out of range: %w", t.c.Name, t.c.Partitions-1, p, ErrInvalid)
	}
	return nil
}

const defaultReadBytes = 256 << 10

// ReadOptions are the options of Read.
type ReadOptions struct {
	MaxBytes int    // soft budget; 0: 256 KiB
	Buf      []byte // space the returned records may alias; nil: fresh memory that the caller owns
}

// Read appends the readable records of a partition from offset on to dst, up to a byte budget,
// and returns the offset to read next. It never waits.
func (t *Topic) Read(ctx context.Context, partition int, offset int64, dst []Record, opts *ReadOptions) ([]Record, int64, error) {
	if err := t.checkPartition(partition); err != nil {
		return dst, offset, err
	}
	req := driver.ReadRequest{Partition: partition, Offset: offset, MaxBytes: defaultReadBytes}
	if opts != nil {
		if opts.MaxBytes > 0 {
			req.MaxBytes = opts.MaxBytes
		}
		req.Buf = opts.Buf
	}
	return t.d.Read(ctx, req, dst)
}

// Wait blocks until there is a record at or after offset, the topic is sealed, or ctx ends.
func (t *Topic) Wait(ctx context.Context, partition int, offset int64) error {
	if err := t.checkPartition(partition); err != nil {
		return err
	}
	return t.d.Wait(ctx, partition, offset)
}

// Bounds is the readable range of a partition.
func (t *Topic) Bounds(ctx context.Context, partition int) (Bounds, error) {
	if err := t.checkPartition(partition); err != nil {
		return Bounds{}, err
	}
	return t.d.Bounds(ctx, partition)
}

// OffsetAt is the lowest offset at or after a time in Unix milliseconds.
func (t *Topic) OffsetAt(ctx context.Context, partition int, millis int64) (int64, error) {
	if err := t.checkPartition(partition); err != nil {
		return 0, err
	}
	return t.d.OffsetAt(ctx, partition, millis)
}

// Measure estimates what lies in a partition without reading it, in the order of the offsets; false when
// the log can't.
func (t *Topic) Measure(ctx context.Context, partition int) ([]Stretch, bool, error) {
	if err := t.checkPartition(partition); err != nil {
		return nil, false, err
	}
	d, ok := t.d.(driver.Measurer)
	if !ok {
		return nil, false, nil
	}
	stretches, err := d.Measure(ctx, partition)
	return stretches, true, err
}

// Trim drops the records of a partition below an offset. After an error they may be there or gone, and it
// may be called again; with ErrNotAppended nothing was begun.
func (t *Topic) Trim(ctx context.Context, partition int, before int64) error {
	if err := t.checkPartition(partition); err != nil {
		return err
	}
	return t.d.Trim(ctx, partition, before)
}

// NoHold are the offsets of a retention hold that keeps nothing.
func NoHold(partitions int) []int64 {
	none := make([]int64, partitions)
	for p := range none {
		none[p] = -1
	}
	return none
}

// Hold sets the retention hold of a name (a group's): the lowest offset of each partition that is still
// needed, -1 for none.
func (t *Topic) Hold(ctx context.Context, name string, offsets []int64) error {
	if len(offsets) != t.c.Partitions {
		return fmt.Errorf("topic %q has %d partitions; a retention hold of %d offsets; expected one for each: %w", t.c.Name, t.c.Partitions, len(offsets), ErrInvalid)
	}
	if t.added > 0 {
		offsets = append(slices.Clone(offsets), NoHold(t.added)...)
	}
	return t.d.Hold(ctx, name, offsets)
}

// Holds are the retention holds of all groups and processes by name, as they are stored. ErrCorrupt, beside the others,
// when one can't be read: it may be of any name.
func (t *Topic) Holds(ctx context.Context) (map[string][]int64, error) {
	holds, err := t.d.Holds(ctx)
	for name, offsets := range holds {
		if len(offsets) > t.c.Partitions {
			holds[name] = offsets[:t.c.Partitions]
		}
	}
	return holds, err
}

// Seal fixes the end of every partition for ever and returns it.
func (t *Topic) Seal(ctx context.Context) ([]int64, error) {
	ends, err := t.d.Seal(ctx)
	if err != nil || len(ends) < t.c.Partitions {
		return ends, err
	}
	return ends[:t.c.Partitions], nil
}

// Close releases the handle.
func (t *Topic) Close() error { return t.d.Close() }
