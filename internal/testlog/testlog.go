// Package testlog keeps what is logged, for tests: any goroutine may log, also while a test reads.
package testlog

import (
	"log/slog"
	"strings"
	"sync"
)

// Buffer is a log. Its zero value is empty, and its methods may be called concurrently.
type Buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write adds to the log, whole lines each time.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is all that was logged.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Reset forgets it.
func (b *Buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}

// Count is how often a text is in it.
func (b *Buffer) Count(text string) int { return strings.Count(b.String(), text) }

// Logger logs to it from level info on.
func (b *Buffer) Logger() *slog.Logger { return b.From(slog.LevelInfo) }

// From logs to it from a level on.
func (b *Buffer) From(least slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: least}))
}
