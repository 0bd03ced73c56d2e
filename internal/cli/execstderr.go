package cli

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"
)

// execStderr is the stderr of commands of --exec, and what ends it when none runs any more: exactly ours for a
// program or a file, and line by line, with all that a terminal obeys made visible, for a terminal. What they write
// there may quote a stranger's record.
//
// It is one pipe for all, and none for each: what a command leaves running has it, and no command would end before
// that does.
func (a *app) execStderr() (io.Writer, func()) {
	if !isTerminal(a.stderr) {
		return a.stderr.Exact(), func() {}
	}
	lines := &shownLines{to: a.stderr}
	from, to, err := os.Pipe()
	if err != nil {
		return lines, lines.end // what commands leave running has to redirect it then
	}
	shown := make(chan struct{})
	go func() { // joined by what ends it
		defer close(shown)
		_, _ = io.Copy(lines, from)
	}()
	return to, func() {
		_ = to.Close()
		_ = from.SetReadDeadline(time.Now().Add(partingWait)) // what was left running does not close it
		<-shown
		_ = from.Close()
		lines.end()
	}
}

// partingWait is how long the end waits for what a command that is still running has to say.
const partingWait = 200 * time.Millisecond

// maxShownLine is how long a line gets before a part of it is shown.
const maxShownLine = 4 << 10

// shownLines passes on whole lines, of several commands at once. A part of one that has no end is shown with the
// next, or at the end.
type shownLines struct {
	to io.Writer

	mu   sync.Mutex // held while writing to the terminal, so that lines stay whole
	rest []byte
}

// Write implements io.Writer. The terminal's errors are nothing that a command should end for.
func (s *shownLines) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, p...)
	end := bytes.LastIndexByte(s.rest, '\n') + 1
	if end == 0 && len(s.rest) > maxShownLine {
		s.rest = append(s.rest, '\n')
		end = len(s.rest)
	}
	if end > 0 {
		_, _ = s.to.Write(s.rest[:end])
		s.rest = append(s.rest[:0], s.rest[end:]...)
	}
	return len(p), nil
}

// end shows what has come of a line that has no end.
func (s *shownLines) end() {
	s.mu.Lock()
	rest := len(s.rest)
	s.mu.Unlock()
	if rest > 0 {
		_, _ = s.Write([]byte("\n"))
	}
}
