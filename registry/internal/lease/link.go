package lease

import (
	"sync"
	"sync/atomic"
)

// Link is the connection that shows other processes that this one lives, if the store has such. Others take its
// loss for a death, long before the TTL of the sessions. So a process that lives on must doubt its sessions
// until they are renewed over a new link. A link begins up. Its methods may be called concurrently.
type Link struct {
	age atomic.Int64 // even: it is up; each change adds one

	mu       sync.Mutex // for changes of age
	restored chan struct{}
}

// NewLink is a link that is up.
func NewLink() *Link { return &Link{restored: make(chan struct{})} }

// Lost marks the link as lost, or possibly lost.
func (l *Link) Lost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.age.Load()%2 == 0 {
		l.age.Add(1)
	}
}

// Restored marks the link as up, unless it was lost or restored since it had that age. Sessions are renewed at
// once.
func (l *Link) Restored(age int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age%2 == 1 && l.age.Load() == age {
		l.age.Add(1)
		close(l.restored)
		l.restored = make(chan struct{})
	}
}

// Age grows whenever the link is lost or restored.
func (l *Link) Age() int64 {
	if l == nil {
		return 0
	}
	return l.age.Load()
}

// look is the age, and a channel that is closed when the link is restored after it.
func (l *Link) look() (age int64, restored <-chan struct{}) {
	if l == nil {
		return 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.age.Load(), l.restored
}
