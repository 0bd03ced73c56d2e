package vfs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrBusy is of a mapping that can't be had at this moment.
var ErrBusy = errors.New("busy")

const (
	busyPatience = 5 * time.Second
	busyNap      = time.Millisecond
)

// MapWhenFree is f.Map of a writable mapping, asked for again while it is busy: until ctx ends, or
// for five seconds, after which the error says that a process is probably stopped.
func MapWhenFree(ctx context.Context, f File, size int64) (Mapping, error) {
	tick := time.NewTicker(busyNap)
	defer tick.Stop()
	for start := time.Now(); ; {
		m, err := f.Map(size, true)
		if !errors.Is(err, ErrBusy) {
			return m, err
		}
		if waited := time.Since(start); waited > busyPatience {
			return nil, fmt.Errorf("%w, for %s already: it is probably stopped; continue or kill it", err, waited.Round(time.Millisecond))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		}
	}
}
