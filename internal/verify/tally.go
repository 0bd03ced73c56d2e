package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ringfence/ringfence/internal/history"
)

// tally reads the histories while they grow: it counts what happened, and knows the owners. It
// judges nothing.
type tally struct {
	dir   string
	files map[string]*followed

	sent, acked, handled int64
	taken                []history.Arrival     // by the handlers of a subscription
	last                 map[string]int        // of each key, one above the highest of them
	owners               map[int]history.Event // of each unit, the newest
	watched              []*watched
}

// followed is a file that is read as far as it got.
type followed struct {
	offset int64
	rest   []byte // of a line that is not whole yet
}

// watched is a fault whose takeovers are measured.
type watched struct {
	fault *Fault
	at    int64
	units map[int]int64 // that have no next owner yet, with their epochs
}

func newTally(dir string) *tally {
	return &tally{dir: dir, files: make(map[string]*followed), owners: make(map[int]history.Event), last: make(map[string]int)}
}

// follow reads what was written since the last time.
func (t *tally) follow() error {
	paths, err := filepath.Glob(filepath.Join(t.dir, "*.jsonl"))
	if err != nil {
		return err
	}
	taken := filepath.Join(t.dir, takenFile)
	if _, err := os.Stat(taken); err == nil {
		paths = append(paths, taken)
	}
	for _, path := range paths {
		if t.files[path] == nil {
			t.files[path] = new(followed)
		}
		if err := t.read(path, t.files[path]); err != nil {
			return err
		}
	}
	return nil
}

func (t *tally) read(path string, from *followed) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	buf := make([]byte, 256<<10)
	for {
		n, err := f.ReadAt(buf, from.offset)
		from.offset += int64(n)
		from.rest = append(from.rest, buf[:n]...)
		for {
			line, rest, whole := bytes.Cut(from.rest, []byte("\n"))
			if !whole {
				break
			}
			if filepath.Base(path) == takenFile {
				t.took(string(line))
			} else {
				t.line(line)
			}
			from.rest = rest
		}
		from.rest = bytes.Clone(from.rest)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
}

// line counts an event. Few are decoded, and what is damaged is left to the judge.
func (t *tally) line(line []byte) {
	is := func(kind history.Kind) bool {
		return bytes.HasPrefix(line, append([]byte(`{"kind":"`+kind), '"'))
	}
	switch {
	case is(history.Sent):
		t.sent++
	case is(history.Produced):
		if !bytes.HasSuffix(line, []byte(`"reason":"`+acknowledgedAgain+`"}`)) {
			t.acked++
		}
	case is(history.Finished):
		t.handled++
	case is(history.Owned):
		var e history.Event
		if json.Unmarshal(line, &e) == nil {
			t.owned(e)
		}
	}
}

// took notes a record that a handler of a subscription took.
func (t *tally) took(line string) {
	a, ok := arrival(line)
	if !ok {
		return
	}
	t.handled++
	t.taken = append(t.taken, a)
	t.last[a.Key] = max(t.last[a.Key], a.Number+1)
}

func (t *tally) owned(e history.Event) {
	if e.Epoch > t.owners[e.Unit].Epoch {
		t.owners[e.Unit] = e
	}
	if e.Member == "" {
		return // it was released
	}
	for _, w := range t.watched {
		if epoch, open := w.units[e.Unit]; open && e.Epoch > epoch && e.At > w.at {
			delete(w.units, e.Unit)
			w.fault.TakeoverMillis = max(w.fault.TakeoverMillis, float64(e.At-w.at)/1e6)
		}
	}
}

// watch measures from now on how long the units of a consumer wait for their next owners.
func (t *tally) watch(f *Fault) {
	w := &watched{fault: f, at: history.Now(), units: make(map[int]int64)}
	for unit, e := range t.owners {
		if e.Member == f.Process {
			w.units[unit] = e.Epoch
		}
	}
	f.Units = len(w.units)
	if f.Units > 0 {
		t.watched = append(t.watched, w)
	}
}
