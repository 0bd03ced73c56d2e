package ringfence

import (
	"fmt"

	"github.com/ringfence/ringfence/dispatch"
)

// Later is an answer that a handler owes: see Message.Later.
type Later = dispatch.Later

// Later has the handler of m answer after it has returned: it hands m over to whoever does the work, with
// what Later returns, and returns nil. Nothing of m's key is handed out until Later.Answer is called, from any goroutine,
// with what a handler would have returned: nil, or an error, which may be Permanent, RetryAfter or Outage.
//
// Until then m counts as being handled: for Concurrency, for HandlerTimeout, for a drain, which waits for its
// answer, and its context is the handler's, cancelled the moment the partition is lost or a drain takes too long.
// Whoever works on m heeds that.
//
// It has to be called before the handler returns. When that returns an error, or panics, then this is the answer.
//
// Later.Answer returns nil when the answer was taken; ErrConflict when there was one before; ErrFenced when m
// is not this owner's any more: it is delivered again then, whatever was answered. ErrInvalid for a message
// whose handler has returned, or that came to none.
func (m *Message) Later() *Later {
	if m.answer == nil || m.answer.later == nil {
		if m.record == nil {
			return dispatch.NoLater(fmt.Errorf("Message.Later was called where no handler is at work on the message; expected a call in the handler, before it returns: %w", ErrInvalid))
		}
		m.answers().later = dispatch.NewLater(m.record)
	}
	return m.answer.later
}
