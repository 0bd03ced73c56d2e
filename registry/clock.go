package registry

import (
	"context"
	"time"
)

// storeClock is the store's time of day, as a reading returned it.
type storeClock struct {
	millis int64
	read   time.Time // when the reading arrived, with the monotonic clock
}

func (r *Registry) noteTime(snap *Snapshot) {
	r.clock.Store(&storeClock{millis: snap.Time, read: time.Now()})
}

// Now is the store's time of day in Unix ms: that of the last reading plus what has passed since. It is
// never ahead of the store's clock.
func (r *Registry) Now(ctx context.Context) (int64, error) {
	c := r.clock.Load()
	if c == nil {
		if _, err := r.List(ctx, "clock"); err != nil {
			return 0, err
		}
		c = r.clock.Load()
	}
	return c.millis + time.Since(c.read).Milliseconds(), nil
}
