package ringfence

import (
	"fmt"
	"sync"

	"github.com/ringfence/ringfence/dispatch"
)

// Later is an answer that a handler owes, see Message.Later. It may be copied.
type Later struct{ owed *dispatch.Later }

// Answer says what became of the message, as the return of a handler does: nil, or an error, which may be Permanent,
// RetryAfter or Outage. It may be called from any goroutine, also before the handler returns.
//
// It returns nil when the answer was taken; ErrConflict when there was one before; ErrFenced when the message belongs to
// another owner by now, and is delivered again, whatever was answered; ErrInvalid for a message whose handler has returned,
// or that no handler got.
func (l Later) Answer(err error) error { return l.owed.Answer(err) }

// Later lets the handler of m answer after it has returned: the handler passes m and the Later on to whatever does the work,
// and returns nil. No other message of m's key is handed out until Later.Answer is called.
//
// Until then m counts as being handled: for Concurrency, for HandlerTimeout and for a drain, which waits for the answer. Its
// context is the handler's, cancelled the moment the partition is lost or a drain takes too long: the work heeds it.
//
// Later has to be called before the handler returns, on m or a copy of it. When the handler returns an error, or panics, this
// is the answer.
func (m *Message) Later() Later {
	lock := m.lock()
	lock.Lock()
	defer lock.Unlock()
	if m.answer != nil && m.answer.later != nil {
		return Later{m.answer.later}
	}
	if r := m.record; r != nil {
		if l := r.Owe(dispatch.Attempt{Storage: m.Storage, Partition: m.Partition, Offset: m.Offset, Number: m.Attempt}); l != nil {
			m.answers().later = l
			return Later{l}
		}
	}
	return Later{dispatch.NoLater(fmt.Errorf("Message.Later was called where no handler is at work on the message; expected a call in the handler, before it returns: %w", ErrInvalid))}
}

// answerLocks guard Message.answer, each that of some messages: a word more in each would be one for every record.
var answerLocks [64]sync.Mutex

func (m *Message) lock() *sync.Mutex { return &answerLocks[uint64(m.Offset)%uint64(len(answerLocks))] }
