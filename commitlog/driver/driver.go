// Package driver is the contract between commitlog and the backends that store records.
//
// Programs use package commitlog. A backend implements this package and passes commitlog/logtest.
// commitlog checks names and sizes before a driver sees them.
package driver

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// Durability says what an acknowledged append has survived.
type Durability string

const (
	// Sync: on stable storage (fsynced) before the ack. Survives power loss.
	Sync Durability = "sync"
	// OS: in the operating system's cache. Survives kill -9, not power loss.
	OS Durability = "os"
)

// Options are what every log backend is opened with.
type Options struct {
	Durability Durability   // zero: Sync
	Logger     *slog.Logger // nil: discard
	// AllowShared accepts a directory that another user owns or can open.
	AllowShared bool
	// StrictTLS refuses to log in to another host without TLS, which is only warned about otherwise.
	StrictTLS bool
}

// Header is one name and value attached to a record. Names may repeat; order is kept.
type Header struct {
	Name  string
	Value []byte
}

// Record is one message in a partition.
type Record struct {
	// Offset is set by reads; appends ignore it.
	Offset int64
	// Timestamp in Unix milliseconds. Zero in an append: the log sets the time of the append.
	Timestamp int64
	Key       []byte // nil: no key; empty is a key of zero bytes
	Value     []byte
	Headers   []Header
}

// TopicConfig describes a storage topic.
type TopicConfig struct {
	Name       string
	Partitions int
	// RetentionBytes and RetentionAgeMillis bound what is kept; zero keeps all.
	// A log drops no record at or above the lowest retention hold (Topic.Hold) unless RetentionForce is set.
	RetentionBytes     int64
	RetentionAgeMillis int64
	RetentionForce     bool
	// Card is what the maker wrote of the topic: opaque text that appears with it and never changes. A topic of
	// another program has none.
	Card string `json:",omitempty"`
	// Compacted: by its settings, which are another program's, the log drops records between others.
	Compacted bool `json:"-"`
}

// WithRetentionOf is c with the retention of another configuration.
func (c TopicConfig) WithRetentionOf(o TopicConfig) TopicConfig {
	c.RetentionBytes, c.RetentionAgeMillis, c.RetentionForce = o.RetentionBytes, o.RetentionAgeMillis, o.RetentionForce
	return c
}

// Producer identifies one append for idempotence. The zero value asks for none.
//
// A log may bound its memory of producers, as its documentation says. It then forgets whole producers, the
// longest silent first. An append of a producer that it forgot, or may have forgotten, is fault.Forgotten
// with any sequence: the call stores nothing, and whether an earlier call did is not known.
type Producer struct {
	// ID is that of one producer, for good; 0: not idempotent. Take it from NewProducerID: a log that
	// has forgotten producers takes a new one with a lower ID than theirs for one of them.
	ID uint64
	// Epoch: once an append of a higher epoch of the same ID is acknowledged, in whatever partition
	// and also as a duplicate, the lower ones are fenced in all of the topic (fault.Fenced).
	Epoch int32
	// Sequence numbers the appends of (ID, partition): from 0, one more each; a new epoch goes on
	// counting. A sequence that was appended already is acknowledged again with its first offset and
	// stored once, also when the topic was sealed since. A gap is fault.Invalid. A duplicate older than
	// the last ProducerWindow may be acknowledged with offset -1: stored, at a forgotten offset.
	Sequence int64
}

// ProducerWindow is how many appends back a log remembers the first offset of a sequence, at least.
const ProducerWindow = 8

// NewProducerID makes an ID for a producer. IDs that are made later are larger, but for those of
// the same quarter of an hour, and have the upper two bits zero until the year 2106.
func NewProducerID() uint64 {
	const random = 40 // bits: among 1,000 that are made at once, two are equal once in two million times
	return uint64(time.Now().Unix())>>10<<random | rand.Uint64()>>(64-random)
}

// AppendRequest is one atomic batch for one partition: all of its records appear, adjacent
// and in order, or none does.
type AppendRequest struct {
	Partition int
	Records   []Record // at least one; the driver must not keep it after done was called
	Producer  Producer
}

// Bounds is the readable range of a partition.
type Bounds struct {
	First  int64 // lowest offset that is kept (== Next when nothing is)
	Next   int64 // every readable record is below it; the durable end
	Sealed bool  // Next is final
}

// ReadRequest asks for records of one partition.
type ReadRequest struct {
	Partition int
	Offset    int64  // the first offset wanted; a gap is skipped
	MaxBytes  int    // soft budget over keys, values and headers; at least one record is returned
	Buf       []byte // optional space that the returned slices may alias
}

// Log is a set of storage topics. All methods may be called concurrently.
type Log interface {
	// CreateTopic makes a topic. fault.Exists when the name is taken by a topic with other partitions;
	// nil when the same topic is there already, whose retention and card stay as they are. Atomic also
	// between processes.
	CreateTopic(ctx context.Context, c TopicConfig) error
	// AlterTopic gives a topic the retention of c, for good; its card stays. Open handles, in every process, follow
	// within a minute. fault.NotFound when there is none, fault.Exists when it has other partitions than c.
	AlterTopic(ctx context.Context, c TopicConfig) error
	// DeleteTopic removes a topic and its records. fault.NotFound when there is none. Open
	// handles of it, in every process, fail with fault.NotFound from then on.
	DeleteTopic(ctx context.Context, name string) error
	// Topics lists all topics, sorted by name.
	Topics(ctx context.Context) ([]TopicConfig, error)
	// OpenTopic opens a handle. fault.NotFound when there is none.
	OpenTopic(ctx context.Context, name string) (Topic, error)
	// Close releases everything. Appends under way are finished or failed first; calls that
	// wait return fault.Closed. Closing twice is nil.
	Close() error
}

// Topic is an open storage topic. All methods may be called concurrently.
type Topic interface {
	// Config is what the topic was created with, with the retention that the handle goes by now.
	Config() TopicConfig

	// Append queues one batch and calls done exactly once, from any goroutine, possibly before
	// Append returns: with the first offset when the batch is durable at the log's level, or with
	// fault.Sealed, fault.Fenced, fault.Forgotten, fault.Invalid, fault.NotFound, fault.Closed or
	// fault.NotDone (this call has certainly stored nothing) or fault.Unknown (fate unknown). done
	// must not block.
	// Batches queued one after another by one goroutine for one partition keep that order.
	// Append blocks only while the log's write buffer is full, until ctx ends (fault.NotDone).
	// After it was queued, a batch is not affected by ctx.
	Append(ctx context.Context, req *AppendRequest, done func(first int64, err error))

	// Read appends records from req.Offset on to dst, up to a byte budget, and returns the
	// extended slice and the offset to read next. It does not wait: nothing readable yields dst
	// and req.Offset, or the offset behind a gap. Only durable records are readable. Offsets below First or above Next are
	// *OutOfRangeError; damaged records are *CorruptError, after every sound record before them
	// was returned. The caller owns the result; its bytes never change, except that they may
	// alias req.Buf, which the caller may reuse when it has finished with the records.
	Read(ctx context.Context, req ReadRequest, dst []Record) (recs []Record, next int64, err error)

	// Wait blocks until partition has a readable record at or after offset (or Next is above it),
	// the topic is sealed, or ctx ends (its error). No polling: an idle waiter costs no CPU.
	Wait(ctx context.Context, partition int, offset int64) error

	// Bounds is the readable range of one partition.
	Bounds(ctx context.Context, partition int) (Bounds, error)

	// OffsetAt is the lowest offset of a record with Timestamp >= millis; Next when there is
	// none. A log whose index is coarser may answer a lower offset, never a higher one.
	OffsetAt(ctx context.Context, partition int, millis int64) (int64, error)

	// Trim makes First at least before (never more than Next); space is freed when the log can.
	// After an error it may be repeated; one that is fault.NotDone says that nothing was trimmed.
	Trim(ctx context.Context, partition int, before int64) error

	// Hold sets a retention hold: the lowest offset of each partition that is still needed, -1 for
	// none. It replaces the retention hold of the same name.
	Hold(ctx context.Context, name string, offsets []int64) error

	// Holds are the retention holds by name, as they are stored: also those of other processes and of earlier
	// ones. A hold of -1 everywhere may be left out. fault.Corrupt, beside the others, when one can't be read.
	Holds(ctx context.Context) (map[string][]int64, error)

	// Seal makes every later append fail with fault.Sealed and returns the final Next of every
	// partition. Idempotent, atomic over all partitions and all processes. What it returns lasts, and all
	// that lies before it, whatever the durability is: the ends are stored elsewhere.
	Seal(ctx context.Context) ([]int64, error)

	// Close releases the handle.
	Close() error
}

// InlineAppender is what a Topic may also be, to spare a caller that waits for each append the
// way through another goroutine.
type InlineAppender interface {
	// AppendInline is Append for a caller that does nothing else until done was called. It may
	// do the work of the append itself: then it blocks for as long as that takes, whatever
	// happens to ctx, and has called done when it returns. It keeps no memory of req when it returns.
	AppendInline(ctx context.Context, req *AppendRequest, done func(first int64, err error))
}

// OutOfRangeError says that an offset can't be read. It is fault.OutOfRange.
type OutOfRangeError struct {
	Topic              string
	Partition          int
	Offset, First, End int64
}

func (e *OutOfRangeError) Error() string {
	return fmt.Sprintf("topic %q partition %d: offset %d is outside of [%d, %d)", e.Topic, e.Partition, e.Offset, e.First, e.End)
}

func (e *OutOfRangeError) Is(target error) bool { return target == fault.OutOfRange }

// CorruptError names the place of damaged data. It is fault.Corrupt.
type CorruptError struct {
	Topic     string
	Partition int // -1 when not known
	Offset    int64
	// Resume is the first offset after the damage that is readable, or -1 when not known.
	// Nothing skips there by itself: a person seeks.
	Resume   int64
	File     string
	Position int64 // byte in File
	Detail   string
}

func (e *CorruptError) Error() string {
	then := fmt.Sprintf("records from offset %d on are readable (seek there to go on)", e.Resume)
	if e.Resume < 0 {
		then = "where to go on is not known yet"
	}
	return fmt.Sprintf("topic %q partition %d offset %d: damaged data in %s at byte %d: %s; %s", e.Topic, e.Partition, e.Offset, e.File, e.Position, e.Detail, then)
}

func (e *CorruptError) Is(target error) bool { return target == fault.Corrupt }

// Measurer is what a Topic may also be, when it can tell what a partition holds faster than by reads
// all over it.
type Measurer interface {
	// Measure says what lies in a partition, in the order of the offsets. The numbers are estimates.
	Measure(ctx context.Context, partition int) ([]Stretch, error)
}

// Stretch is a range of offsets over which its records are spread evenly.
type Stretch struct {
	From, Until    int64
	Records, Bytes float64
}
