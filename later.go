package ringfence

import (
	"fmt"
	"sync"

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
// It has to be called before the handler returns, on m or a copy of it. When that returns an error, or panics, then
// this is the answer.
//
// Later.Answer returns nil when the answer was taken; ErrConflict when there was one before; ErrFenced when m
// is not this owner's any more: it is delivered again then, whatever was answered. ErrInvalid for a message
// whose handler has returned, or that came to none.
func (m *Message) Later() *Later {
	lock := m.lock()
	lock.Lock()
	defer lock.Unlock()
	if m.answer != nil && m.answer.later != nil {
		return m.answer.later
	}
	if r := m.record; r != nil {
		if l := r.Owe(dispatch.Attempt{Storage: m.Storage, Partition: m.Partition, Offset: m.Offset, Number: m.Attempt}); l != nil {
			m.answers().later = l
			return l
		}
	}
	return dispatch.NoLater(fmt.Errorf("Message.Later was called where no handler is at work on the message; expected a call in the handler, before it returns: %w", ErrInvalid))
}

// answerLocks guard Message.answer, each that of some messages: a word more in each would be one for every record.
var answerLocks [64]sync.Mutex

func (m *Message) lock() *sync.Mutex { return &answerLocks[uint64(m.Offset)%uint64(len(answerLocks))] }
