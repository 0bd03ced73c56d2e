package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ringfence/ringfence/internal/history"
)

// tally reads the histories while they grow: it counts, knows the owners, and judges nothing.
type tally struct {
	dir   string
	files map[string]int64 // as far as they were read

	sent, acked, handled int64
	taken                []history.Arrival     // by the handlers of a subscription
	last                 map[string]int        // of each key, one above the highest of them
	owners               map[int]history.Event // of each unit, the newest
	watched              []*watched
}

// watched is a fault whose takeovers are measured.
type watched struct {
	fault *Fault
	at    int64
	units map[int]int64 // that have no next owner yet, with their epochs
}

func newTally(dir string) *tally {
	return &tally{dir: dir, files: make(map[string]int64), owners: make(map[int]history.Event), last: make(map[string]int)}
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
		if err := t.read(path); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	return nil
}

// read takes in the lines of a file that are whole since the last time.
func (t *tally) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	added, err := io.ReadAll(io.NewSectionReader(f, t.files[path], 1<<40))
	for line := range bytes.Lines(added) {
		text, whole := bytes.CutSuffix(line, []byte("\n"))
		if !whole {
			break
		}
		t.files[path] += int64(len(line))
		if filepath.Base(path) == takenFile {
			t.took(string(text))
		} else {
			t.line(text)
		}
	}
	return err
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
