package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// draws says whether what is shown on w may be drawn over: a terminal, and one that obeys.
func (a *app) draws(w io.Writer) bool {
	if a.getenv("TERM") == "dumb" {
		return false
	}
	return isTerminal(w)
}

// screen is a terminal that was changed; it is given back however the process ends, or the shell would show nothing.
type screen struct {
	mu   sync.Mutex
	undo func()
}

// giveBack undoes what was done to the terminal; once, and nothing if that was nothing.
func (s *screen) giveBack() {
	s.mu.Lock()
	undo := s.undo
	s.undo = nil
	if undo != nil {
		undo() // under the lock: the end of the process waits for it
	}
	s.mu.Unlock()
}

// takeTerminal switches to the other screen of the terminal and to keys without Enter, until giveBack.
func (a *app) takeTerminal() error {
	cooked := func() {}
	if in, ok := a.stdin.(*os.File); ok && isTerminal(in) {
		state, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
		cooked = func() { _ = term.Restore(int(in.Fd()), state) }
	}
	a.screen.mu.Lock()
	a.screen.undo = func() {
		fmt.Fprint(a.stdout, a.stdout.Control("\x1b[?7h\x1b[?25h\x1b[?1049l"))
		cooked()
	}
	a.screen.mu.Unlock()
	fmt.Fprint(a.stdout, a.stdout.Control("\x1b[?1049h\x1b[?25l\x1b[?7l"))
	return nil
}

// readKeys passes keys on until ctx ends.
func readKeys(ctx context.Context, in io.Reader, keys chan<- byte) {
	b := make([]byte, 4096)
	for {
		n, err := in.Read(b)
		for _, key := range b[:n] {
			select {
			case keys <- key:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}
