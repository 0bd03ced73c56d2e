package nemesis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/history"
)

// A member that has lost its session stops its units at that moment: what its handlers finish
// from then on, or had finished in a batch that was not accounted for, is as if it had been in
// flight. When it finds that nobody took a unit, it goes on with it in the same epoch, and repeats
// those records. That is no more than a takeover would repeat, but the judge knows only epochs. So
// it is told that such a record failed the first time.

// pausesSuffix is of the file beside a history that has the moments of its member's pauses.
const pausesSuffix = ".pauses"

// settling is how long before a pause something may have been finished that the member had not
// accounted for: a batch of records.
const settling = int64(2 * time.Second)

// pauses is a log handler that notes when its member pauses.
type pauses struct {
	slog.Handler
	path string
}

func (p *pauses) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "paused" {
		if err := p.note(); err != nil {
			return err
		}
	}
	return p.Handler.Handle(ctx, r)
}

func (p *pauses) note() error {
	f, err := os.OpenFile(p.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, history.Now())
	return errors.Join(err, f.Close())
}

func (p *pauses) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &pauses{p.Handler.WithAttrs(attrs), p.path}
}

func (p *pauses) WithGroup(name string) slog.Handler {
	return &pauses{p.Handler.WithGroup(name), p.path}
}

// tenancy is one record in the hands of one owner.
type tenancy struct {
	incarnation string
	epoch       int64
	storage     int
	partition   int
	offset      int64
}

// accounted is the history in a file with what was cut off by a pause marked as failed.
func accounted(path string) ([]history.Event, error) {
	moments, err := readPauses(path + pausesSuffix)
	if err != nil {
		return nil, err
	}
	events, err := read(path)
	if err != nil {
		return nil, err
	}
	finished := map[tenancy]int{} // the index of its last end
	for i, e := range events {
		at := tenancy{e.Incarnation, e.Epoch, e.Storage, e.Partition, e.Offset}
		switch e.Kind {
		case history.Finished:
			finished[at] = i
		case history.Started:
			if last, ok := finished[at]; ok && pausedBetween(moments, events[last].At-settling, e.At) {
				events[last].Kind = history.Failed
				delete(finished, at)
			}
		}
	}
	return events, nil
}

func pausedBetween(moments []int64, from, to int64) bool {
	for _, m := range moments {
		if from <= m && m <= to {
			return true
		}
	}
	return false
}

func readPauses(path string) (moments []int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		m, err := strconv.ParseInt(strings.TrimSpace(lines.Text()), 10, 64)
		if err != nil {
			return nil, err
		}
		moments = append(moments, m)
	}
	return moments, nil
}
