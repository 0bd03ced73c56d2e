package consumer

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// SeekTarget is the destination of a seek: the zero value is the oldest record that is kept.
type SeekTarget struct {
	kind   string // "", "latest", "offset", "time"
	offset int64
	at     time.Time
}

// The ways to make a SeekTarget.
var (
	SeekEarliest = SeekTarget{}
	SeekLatest   = SeekTarget{kind: "latest"}
)

// SeekOffset is an offset, the same in each partition that is sought.
func SeekOffset(offset int64) SeekTarget { return SeekTarget{kind: "offset", offset: offset} }

// SeekTime is the first record at or after a time.
func SeekTime(at time.Time) SeekTarget { return SeekTarget{kind: "time", at: at} }

// ParseSeek reads "earliest", "latest", an offset, an RFC 3339 time, or "-15m" or "15m": so long ago.
func ParseSeek(s string) (SeekTarget, error) {
	switch s {
	case "earliest":
		return SeekEarliest, nil
	case "latest":
		return SeekLatest, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		return SeekOffset(n), nil
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return SeekTime(at), nil
	}
	if ago, err := time.ParseDuration(strings.TrimPrefix(s, "-")); err == nil && ago >= 0 {
		return SeekTime(time.Now().Add(-ago)), nil
	}
	return SeekTarget{}, fmt.Errorf("seek target %q: expected earliest, latest, an offset, a time like 2026-01-31T12:00:00Z, or an age like -15m: %w", s, fault.Invalid)
}

func (s SeekTarget) String() string {
	switch s.kind {
	case "latest":
		return "latest"
	case "offset":
		return strconv.FormatInt(s.offset, 10)
	case "time":
		return s.at.Format(time.RFC3339)
	}
	return "earliest"
}

// Storage is the storage topic of a target: the oldest one, the one that takes new records, or the first that
// has a record of that time or a later one. An offset exists in each, so its storage topic is now.
func (s SeekTarget) Storage(ctx context.Context, t *topic.Topic, now int) (int, error) {
	doc := t.Document()
	switch s.kind {
	case "offset":
		return now, nil
	case "latest":
		return doc.Produce, nil
	case "time":
		for storage := doc.Left(); storage < doc.Produce; storage++ {
			for p := range doc.Storage[storage].Partitions {
				at, err := SeekPosition(ctx, t, storage, p, s)
				if err != nil {
					return 0, err
				}
				if at.Lag > 0 {
					return storage, nil
				}
			}
		}
		return doc.Produce, nil
	}
	return doc.Left(), nil
}

// resolve finds the offset of a target in one partition.
func (s SeekTarget) resolve(ctx context.Context, st *commitlog.Topic, partition int, b commitlog.Bounds) (int64, error) {
	switch s.kind {
	case "latest":
		return b.Next, nil
	case "time":
		at, err := st.OffsetAt(ctx, partition, s.at.UnixMilli())
		return max(at, b.First), err
	case "offset":
		if s.offset < b.First || s.offset > b.Next {
			return 0, fmt.Errorf("partition %d keeps offsets %d to %d; can't seek to %d (earliest and latest always work): %w",
				partition, b.First, b.Next, s.offset, fault.Invalid)
		}
		return s.offset, nil
	}
	return b.First, nil
}
