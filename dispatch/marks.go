package dispatch

import (
	"context"

	"github.com/ringfence/ringfence/group/protocol"
)

// checkMarks holds what the start of an input says of records above itself, finished or failed, against
// the end of its partition. When any of them is not there, the partition is not what the checkpoint was
// made of: it went back and has, or will have, other records at these offsets, or somebody else wrote the
// checkpoint. Then none of the marks is believed, and the records are handled again: a mark would hide
// one that nobody has handled as soon as the partition has grown to it. The next checkpoint has them no
// more. A position that lies beyond the end itself can't be read from, and ends the unit; see refused.
//
// Retention is no matter here: what lies below the first record hides nothing. It costs a look at the
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
		e.log.Error("the checkpoint names records that the partition has not got: the log went back, or somebody else wrote the checkpoint; none of what it says above its position is believed, and these records are handled again. To go further back, seek",
			"storage", in.storage, "partition", in.partition, "position", start.Next, "names", start.Highest()-1, "end", b.Next)
	}
	return nil
}
