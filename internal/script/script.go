// Package script lets what runs step by step be written down as a test is: what goes wrong ends it. Check and Must
// end a script, and Try is where it ends. Both are for the goroutine of a Try; Together and Beside give others theirs.
package script

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// failure is what ends a script.
type failure struct{ error }

// Check ends the script at an error.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must is Check for what comes with a value.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Script is what is to be undone when a script ends.
type Script struct{ undo []func() error }

// Try runs a script, undoes what it has to, and says what went wrong.
func Try(script func(s *Script)) error {
	var s Script
	errs := []error{caught(func() { script(&s) })}
	for _, undo := range slices.Backward(s.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

func caught(script func()) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case failure:
			err = v.error
		default: // a bug
			panic(v)
		}
	}()
	script()
	return nil
}

// Later undoes something when the script ends, however it does; the last comes first.
func (s *Script) Later(undo func() error) { s.undo = append(s.undo, undo) }

// Beside runs something beside the script, until stop is called or the script ends. Stop gives what it returned,
// the first time.
func (s *Script) Beside(ctx context.Context, run func(ctx context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }() // joined by stop
	joined := false
	stop = func() error {
		if joined {
			return nil
		}
		joined = true
		cancel()
		return <-ended
	}
	s.Later(stop)
	return stop
}

// Together calls for each number below n on a goroutine of its own. What goes wrong in any ends the script, when
// all have returned.
func Together(n int, call func(i int)) {
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = caught(func() { call(i) }) })
	}
	wg.Wait()
	Check(errors.Join(errs...))
}
