package pgregistry

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/ringfence/ringfence/internal/limits"
)

// answerBound stands between the client library and a server that may be anybody, inside of TLS. The
// library keeps what a server says of its settings, and its callers keep rows, for as long as it says
// more. So what comes without another request has a bound.
type answerBound struct {
	from  io.Reader
	to    io.Writer
	fresh atomic.Bool // something was sent

	head                [5]byte // of a message: a letter, and the length of the rest with itself
	have                int     // bytes of head
	skip                int64   // bytes of the message that are to come
	bytes, rows, others int64   // since something was sent
	broken              error
}

// Write implements io.Writer.
func (a *answerBound) Write(p []byte) (int, error) {
	a.fresh.Store(true)
	return a.to.Write(p)
}

// Read implements io.Reader.
func (a *answerBound) Read(p []byte) (int, error) {
	if a.broken != nil {
		return 0, a.broken
	}
	n, err := a.from.Read(p)
	if a.broken = a.follow(p[:n]); a.broken != nil {
		return 0, a.broken
	}
	return n, err
}

func (a *answerBound) follow(p []byte) error {
	if a.fresh.CompareAndSwap(true, false) {
		a.bytes, a.rows, a.others = 0, 0, 0
	}
	if a.bytes += int64(len(p)); a.bytes > limits.PostgresAnswerBytes {
		return fmt.Errorf("the server goes on with an answer of more than %d bytes; no registry is so large", limits.PostgresAnswerBytes)
	}
	for len(p) > 0 {
		if a.skip > 0 {
			n := min(a.skip, int64(len(p)))
			p, a.skip = p[n:], a.skip-n
			continue
		}
		n := copy(a.head[a.have:], p)
		p = p[n:]
		if a.have += n; a.have < len(a.head) {
			break
		}
		// The library refuses a length of less than itself.
		a.have, a.skip = 0, max(int64(int32(binary.BigEndian.Uint32(a.head[1:])))-4, 0) //nolint:gosec // its bits
		if err := a.count(a.head[0]); err != nil {
			return err
		}
	}
	return nil
}

// count takes note of a message.
func (a *answerBound) count(letter byte) error {
	if letter == 'D' || letter == 'A' {
		if a.rows++; a.rows > limits.PostgresAnswerRows {
			return fmt.Errorf("the server goes on with an answer of more than %d rows", limits.PostgresAnswerRows)
		}
		return nil
	}
	if a.others++; a.others > limits.PostgresAnswerNotices {
		return fmt.Errorf("the server sends more than %d messages that are no rows, such as settings and notices, in one answer", limits.PostgresAnswerNotices)
	}
	return nil
}
