package history

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/fault"
)

// Now is the time for events of real processes: a monotonic clock that all processes of a
// machine share, that never jumps and goes on when one of them is stopped. Nanoseconds.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("history: no monotonic clock: " + err.Error()) // cannot fail on Linux
	}
	return ts.Nano()
}

// Writer writes events as JSON lines.
type Writer struct{ w io.Writer }

// NewWriter writes to w, each event with one Write. What a process must have told before kill -9
// calls for an unbuffered w; an *os.File opened with O_APPEND may be shared by goroutines.
func NewWriter(w io.Writer) *Writer { return &Writer{w} }

// Add writes one event; At is set to Now when it is zero.
func (w *Writer) Add(e Event) error {
	if e.At == 0 {
		e.At = Now()
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("history event of kind %q: %w", e.Kind, err)
	}
	if _, err := w.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// What a reader holds back to put events in order: lines of goroutines that share a file are late by as long as a
// call takes, which is seconds with a slow store or a stopped process.
const (
	fewest = 1 << 10                 // events, whatever their times
	most   = 1 << 16                 // events, so that memory is bounded
	span   = int64(30 * time.Second) // of the times of those held back
)

// Reader reads JSON lines in the order of their time.
type Reader struct {
	r    *bufio.Reader
	held queue
	line int
	last int64 // time of the event that was handed out last
	late int64 // latest time of those read
	end  bool
}

// NewReader reads what a Writer wrote to r.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 64<<10)}
}

// Next returns the next event; io.EOF at the end. A last line that a killed process left
// unfinished is dropped, any other damage is fault.Corrupt.
func (r *Reader) Next() (Event, error) {
	for !r.end && !r.full() {
		e, err := r.read()
		if errors.Is(err, io.EOF) {
			r.end = true
			break
		}
		if err != nil {
			return Event{}, err
		}
		r.held.push(numbered{e, r.line})
		r.late = max(r.late, e.At)
	}
	if len(r.held) == 0 {
		return Event{}, io.EOF
	}
	e := r.held.pop()
	if e.At < r.last {
		return Event{}, fmt.Errorf("history: the event at %d stands more than %d lines after that at %d; all writers must use one clock: %w",
			e.At, len(r.held), r.last, fault.Corrupt)
	}
	r.last = e.At
	return e.Event, nil
}

// full says that enough is held back to hand out the first of it.
func (r *Reader) full() bool {
	n := len(r.held)
	return n >= most || n >= fewest && r.late-r.held[0].At > span
}

func (r *Reader) read() (Event, error) {
	line, err := r.r.ReadBytes('\n')
	if err != nil {
		return Event{}, err // at the end of the file: also without what a torn line holds
	}
	r.line++
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, fmt.Errorf("history line %d is no event (%.60q): %w: %w", r.line, line, err, fault.Corrupt)
	}
	return e, nil
}

type numbered struct {
	Event
	number int
}

// queue is events by time, then by number. Most come at its end.
type queue []numbered

func (q *queue) push(e numbered) {
	at, _ := slices.BinarySearchFunc(*q, e, func(a, b numbered) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.number, b.number))
	})
	*q = slices.Insert(*q, at, e)
}

func (q *queue) pop() numbered {
	first := (*q)[0]
	*q = (*q)[1:]
	return first
}

// Check merges the histories of several processes by time and judges the whole. complete says
// that everything was consumed: then an unfinished record is lost, else it is lag.
func Check(cfg Config, complete bool, files ...io.Reader) (*Report, error) {
	c := New(cfg)
	var next queue // of each file its next event; number is the file
	readers := make([]*Reader, len(files))
	for i, f := range files {
		readers[i] = NewReader(f)
		if err := refill(&next, readers[i], i); err != nil {
			return nil, err
		}
	}
	for len(next) > 0 {
		e := next.pop()
		c.Add(e.Event)
		if err := refill(&next, readers[e.number], e.number); err != nil {
			return nil, err
		}
	}
	return c.Finish(complete), nil
}

func refill(next *queue, r *Reader, number int) error {
	e, err := r.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("history file %d: %w", number, err)
	}
	next.push(numbered{e, number})
	return nil
}
