package dispatch

import (
	"context"

	"github.com/ringfence/ringfence/group/protocol"
)

// checkMarks compares an input's marks, the records above its start that are noted as finished or failed,
// with the end of its partition. When any of them is missing, the partition is not what the checkpoint
// was made of: it went back and has, or will have, other records at these offsets, or the checkpoint is
// not ours. Then no mark counts, and the records are handled again: a mark would hide a record that was
// never handled as soon as the partition has grown to it. The next checkpoint has the marks no more. A
// position beyond the end itself can't be read from, and ends the unit; see refused.
//
// Retention does not matter here: what lies below the first record hides nothing. It costs a look at the
// bounds, and only where there are marks.
func (e *Engine) checkMarks(ctx context.Context, in *input) error {
	if !in.unchecked { // only the reader writes it
		return nil
	}
	b, err := in.source.Bounds(ctx)
	if err != nil {
		return err
	}
	start := in.given
	in.unchecked = false
	if start.Highest() <= b.Next {
		return nil
	}
	e.mu.Lock()
	in.tracker.begin(protocol.Position{Next: start.Next})
	e.advanced()
	e.mu.Unlock()
	if start.Next <= b.Next { // else the first read says it
		e.log.Error("the checkpoint names records that the partition has not got: the log went back, or another program wrote the checkpoint; none of what it says above its position is believed, and these records are handled again. To go further back, seek",
			"storage", in.storage, "partition", in.partition, "position", start.Next, "names", start.Highest()-1, "end", b.Next)
	}
	return nil
}
