package dispatch

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
)

// LostError says that a partition has lost a record that is below the start of an engine: it went back, and has other
// records now that the engine would pass over. It is fault.Corrupt.
type LostError struct {
	Storage, Partition int
	Offset             int64
}

func (e *LostError) Error() string {
	return fmt.Sprintf("storage %d partition %d lacks the record at offset %d, which was processed", e.Storage, e.Partition, e.Offset)
}

// Is makes it fault.Corrupt.
func (e *LostError) Is(target error) bool { return target == fault.Corrupt }

// unknown is the stamp where a record was, and this engine has not read it.
var unknown = protocol.Stamp{-1}

// checkMarks compares an input's start with what its partition has, once. A partition that went back has, or will
// have, other records in the places of those that are known here.
//
// The highest known record tells of all below it. Without it no mark counts, that is no record above the start that is
// noted as finished or failed: they are handled again, and the next checkpoint has the marks no more. A mark would hide
// a record that was never handled as soon as the partition has grown to it. Without the record below the start, others
// below the start were never handled either, and only a person knows where to go on: the unit ends before it has read.
// So it does with marks of replaced records where OnHeld keeps what it was given, which hides records too.
//
// A start beyond the end can't be read from, and ends the unit; see refused. Retention does not matter here: what lies
// below the first record hides nothing. It costs little: the first read begins one record earlier.
func (e *Engine) checkMarks(ctx context.Context, in *input) error {
	if !in.unchecked { // only the reader writes it
		return nil
	}
	start, top := in.given, in.given.Highest()
	var b commitlog.Bounds
	var err error
	void, gone, at := false, false, start.Top
	if top > start.Next {
		if b, err = in.source.Bounds(ctx); err != nil {
			return err
		}
		if void = top > b.Next; !void {
			void, err = in.lost(ctx, start.Top, top)
			gone = void && e.cfg.OnHeld != nil
		}
	}
	if gone = gone || void && start.Last == unknown; err == nil && !gone && (void || top == start.Next || !start.Top.Known()) {
		at = start.Last
		gone, err = in.lost(ctx, at, start.Next)
	}
	if err != nil {
		return err
	}
	if gone {
		return &LostError{in.storage, in.partition, at[0]}
	}
	in.unchecked = false
	if !void {
		return nil
	}
	e.mu.Lock()
	in.tracker.begin(protocol.Position{Next: start.Next, Last: start.Last})
	e.advanced()
	e.mu.Unlock()
	if start.Next <= b.Next { // else the first read says it
		e.log.Error("the checkpoint names records that the partition has not got: the log went back, or another program wrote the checkpoint; none of what it says above its position is believed, and these records are handled again. To go further back, seek",
			"storage", in.storage, "partition", in.partition, "position", start.Next, "names", top-1, "end", b.Next)
	}
	return nil
}

// lost reports whether the partition has lost a record that is known, or has others between it and next.
func (in *input) lost(ctx context.Context, s protocol.Stamp, next int64) (bool, error) {
	if !s.Known() || in.compacted {
		return false, nil
	}
	return commitlog.Lost(ctx, in.source.Read, s[0], s[1], next) //nolint:wrapcheck // as other reads
}
