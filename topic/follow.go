package topic

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

const (
	followSweep = 30 * time.Second // between two looks without a hint
	followRetry = time.Second      // after a failure
	// resumeAfter is how long a switch, a change of the retention, or a retirement may be half done before a
	// consumer finishes it.
	resumeAfter = time.Second
)

// Follow refreshes the topic whenever its definition changes, and calls changed after it and once at the
// beginning, until ctx ends. It finishes interrupted switches. It logs when it can't refresh, and when
// it can again. It ends before ctx, with ErrConflict when the topic was moved to another log, and with
// ErrAnotherLife when another one has its name.
func (t *Topic) Follow(ctx context.Context, logger *slog.Logger, changed func()) error {
	var told *view // what changed was called for
	lost := false
	for ctx.Err() == nil {
		hints, err := t.catalog.reg.Watch(ctx, prefix+t.name)
		if err == nil {
			err = t.heed(ctx, hints, func() {
				if lost {
					lost = false
					logger.Info("the definition of the topic is followed again", "topic", t.name)
				}
				if v := t.view.Load(); v != told { // producers and other followers refresh it too
					told = v
					changed()
				}
			})
		}
		switch {
		case errors.Is(err, fault.Closed):
			return nil
		case errors.Is(err, fault.Conflict), errors.Is(err, ErrAnotherLife):
			return err
		}
		if err != nil && !lost && ctx.Err() == nil {
			lost = true
			logger.Warn("the definition of the topic can't be followed: changes are not heard of", "topic", t.name, "error", err)
		}
		select {
		case <-time.After(followRetry):
		case <-ctx.Done():
		}
	}
	return nil
}

// heed refreshes at each hint until the watch ends or the registry fails, and calls look for each
// view that may be new.
func (t *Topic) heed(ctx context.Context, hints <-chan struct{}, look func()) error {
	var tried *view // what it was tried to bring forward
	for {
		if err := t.Refresh(ctx); err != nil {
			return err
		}
		if err := t.Document().CheckHere(); err != nil {
			return err
		}
		look()
		v, wait := t.view.Load(), followSweep
		unfinished := v.doc.Altering || v.doc.Clearing()
		overtaken := v.overtaken(ctx)
		if unfinished || overtaken && v != tried {
			wait = resumeAfter
		}
		select {
		case _, ok := <-hints:
			if !ok {
				return nil
			}
		case <-time.After(wait):
			if !unfinished && !overtaken {
				continue
			}
			tried = v
			if err := t.catalog.Resume(ctx, t.name, v.doc.Life); err != nil {
				return err
			}
		}
	}
}

// overtaken reports whether the storage topic that takes new records, as far as the view knows, is sealed.
func (v *view) overtaken(ctx context.Context) bool {
	st := v.storage[v.doc.Produce]
	if st == nil {
		return false
	}
	sealed, err := isSealed(ctx, st)
	return err == nil && sealed // what reads it hears of an error
}
