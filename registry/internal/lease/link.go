package lease

import (
	"sync"
	"sync/atomic"
)

// Link is the connection by which others see that a process lives, where a store has one. Others
// take the loss of it for a death, long before the TTL of the process's sessions has passed; so a
// process that lives on must not be certain of them until they were renewed over a new one. Its
// methods may be called concurrently. It begins up.
type Link struct {
	age atomic.Int64 // even: it is up; each change adds one

	mu       sync.Mutex // for changes of age
	restored chan struct{}
}

// NewLink is a link that is up.
func NewLink() *Link { return &Link{restored: make(chan struct{})} }

// Lost says that the link was lost, or may have been.
func (l *Link) Lost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.age.Load()%2 == 0 {
		l.age.Add(1)
	}
}

// Restored says that there is a new link, unless it was lost or restored since it had that age. Sessions are
// renewed at once.
func (l *Link) Restored(age int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age%2 == 1 && l.age.Load() == age {
		l.age.Add(1)
		close(l.restored)
		l.restored = make(chan struct{})
	}
}

// Age grows whenever the link was lost or restored again.
func (l *Link) Age() int64 {
	if l == nil {
		return 0
	}
	return l.age.Load()
}

// look is the age, and what is closed when a new link is restored after it.
func (l *Link) look() (age int64, restored <-chan struct{}) {
	if l == nil {
		return 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.age.Load(), l.restored
}
