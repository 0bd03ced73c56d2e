package lease

import (
	"sync"
	"sync/atomic"
)

// Line is the connection by which others see that a process lives, where a store has one. Others
// take the loss of it for a death, long before the TTL of the process's sessions has passed; so a
// process that lives on must not be certain of them until they were renewed over a new one. Its
// methods may be called concurrently. It begins up.
type Line struct {
	age atomic.Int64 // even: it is up; each change adds one

	mu   sync.Mutex // for changes of age
	laid chan struct{}
}

// NewLine is a line that is up.
func NewLine() *Line { return &Line{laid: make(chan struct{})} }

// Lost says that the line was lost, or may have been.
func (l *Line) Lost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.age.Load()%2 == 0 {
		l.age.Add(1)
	}
}

// Laid says that there is a new line, unless it was lost or laid since it had that age. Sessions are
// renewed at once.
func (l *Line) Laid(age int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age%2 == 1 && l.age.Load() == age {
		l.age.Add(1)
		close(l.laid)
		l.laid = make(chan struct{})
	}
}

// Age grows whenever the line was lost or laid again.
func (l *Line) Age() int64 {
	if l == nil {
		return 0
	}
	return l.age.Load()
}

// look is the age, and what is closed when a new line is laid after it.
func (l *Line) look() (age int64, laid <-chan struct{}) {
	if l == nil {
		return 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.age.Load(), l.laid
}
