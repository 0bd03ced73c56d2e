// Package commitlog is the portable type of the log seam: storage topics made of partitions,
// each an append-only sequence of records.
//
// A Log wraps a backend (memlog, filelog, kafkalog …) and adds validation, blocking and pipelined appends,
// and a Reader that waits.
package commitlog

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// The kinds of errors that calls of this package return; see the driver contract for which.
var (
	ErrInvalid     = fault.Invalid
	ErrNotFound    = fault.NotFound
	ErrExists      = fault.Exists
	ErrFenced      = fault.Fenced
	ErrForgotten   = fault.Forgotten
	ErrSealed      = fault.Sealed
	ErrOutOfRange  = fault.OutOfRange
	ErrCorrupt     = fault.Corrupt
	ErrNotAppended = fault.NotDone
	ErrUnknown     = fault.Unknown
	ErrUnavailable = fault.Unavailable
	ErrClosed      = fault.Closed
)

// Types shared with the drivers.
type (
	Record          = driver.Record
	Header          = driver.Header
	TopicConfig     = driver.TopicConfig
	Bounds          = driver.Bounds
	Stretch         = driver.Stretch
	Producer        = driver.Producer
	OutOfRangeError = driver.OutOfRangeError
	CorruptError    = driver.CorruptError
)

// Limits that hold on every backend.
const (
	MaxNameBytes    = 200
	MaxPartitions   = 4096
	MaxKeyBytes     = 32 << 10
	MaxRecordBytes  = 8 << 20 // key, value and headers of one record
	MaxBatchBytes   = 16 << 20
	MaxBatchRecords = 1 << 16
	MaxHeaders      = 1000
	MaxCardBytes    = 4 << 10 // of TopicConfig.Card
	ProducerWindow  = driver.ProducerWindow
)

// NewProducerID makes an ID for an idempotent producer, larger than those that were made before.
func NewProducerID() uint64 { return driver.NewProducerID() }

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// CheckName says whether name can name a topic; the error says what was expected.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a topic name is empty; expected 1 to %d letters, digits, '.', '_' or '-': %w", MaxNameBytes, ErrInvalid)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("topic name %.20q… has %d bytes; at most %d are allowed: %w", name, len(name), MaxNameBytes, ErrInvalid)
	case !namePattern.MatchString(name):
		return fmt.Errorf("topic name %q: expected letters, digits, '.', '_' or '-', the first a letter or digit: %w", name, ErrInvalid)
	}
	return nil
}

// Log is an open commit log. Its methods may be called concurrently.
type Log struct{ d driver.Log }

// New wraps a driver. Backends call it; users open a backend (filelog.Open, memlog.New …).
func New(d driver.Log) *Log { return &Log{d: d} }

// CreateTopic makes a storage topic; it is nil when there is one already, which keeps its retention and
// card, and ErrExists when that has other partitions.
func (l *Log) CreateTopic(ctx context.Context, c TopicConfig) error {
	if err := checkConfig(c); err != nil {
		return err
	}
	return l.d.CreateTopic(ctx, c)
}

// AlterTopic gives a storage topic the retention of c. Handles that are open in other processes follow
// within a minute. ErrNotFound when there is none, ErrExists when it has other partitions than c.
func (l *Log) AlterTopic(ctx context.Context, c TopicConfig) error {
	if err := checkConfig(c); err != nil {
		return err
	}
	return l.d.AlterTopic(ctx, c)
}

func checkConfig(c TopicConfig) error {
	errs := []error{CheckName(c.Name)}
	if c.Partitions < 1 || c.Partitions > MaxPartitions {
		errs = append(errs, fmt.Errorf("topic %q: %d partitions; expected 1 to %d: %w", c.Name, c.Partitions, MaxPartitions, ErrInvalid))
	}
	if c.RetentionBytes < 0 || c.RetentionAgeMillis < 0 {
		errs = append(errs, fmt.Errorf("topic %q: retention is negative; expected 0 (keep all) or more: %w", c.Name, ErrInvalid))
	}
	if len(c.Card) > MaxCardBytes || !utf8.ValidString(c.Card) {
		errs = append(errs, fmt.Errorf("topic %q: a card of %d bytes; expected at most %d bytes of UTF-8: %w", c.Name, len(c.Card), MaxCardBytes, ErrInvalid))
	}
	return errors.Join(errs...)
}

// DeleteTopic removes a topic and its records.
func (l *Log) DeleteTopic(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return l.d.DeleteTopic(ctx, name)
}

// Topics lists all storage topics, sorted by name.
func (l *Log) Topics(ctx context.Context) ([]TopicConfig, error) { return l.d.Topics(ctx) }

// TopicID is the identity of the storage topic that has a name now, see Topic.ID. "" without a look when
// the log tells none.
func (l *Log) TopicID(ctx context.Context, name string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	d, ok := l.d.(driver.Identifier)
	if !ok {
		return "", nil
	}
	return d.TopicID(ctx, name)
}

// Topic opens a storage topic.
func (l *Log) Topic(ctx context.Context, name string) (*Topic, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	d, err := l.d.OpenTopic(ctx, name)
	if err != nil {
		return nil, err
	}
	return &Topic{d: d, c: d.Config()}, nil
}

// Close finishes or fails the appends under way and releases everything.
func (l *Log) Close() error { return l.d.Close() }
