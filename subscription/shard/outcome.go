package shard

import (
	"errors"
	"time"
)

// What a handler can say of a failure besides that it is one. Who asks does so by an interface, so that
// handlers need not import this package.

// Permanent is an error of a handler that says that the record can never succeed: it becomes a dead
// letter at once.
func Permanent(err error) error {
	if err == nil {
		err = errors.New("refused")
	}
	return permanentError{err}
}

type permanentError struct{ error }

func (permanentError) Permanent() bool { return true }

// Unwrap is for errors.Is.
func (e permanentError) Unwrap() error { return e.error }

// RetryAfter is an error of a handler that says when the record is to be tried again: in a day at most, or
// after the longest pause that there is without it, if that is longer.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		err = errors.New("try again later")
	}
	return timedError{err, d}
}

// Outage is an error of a handler that says that what it delivers to does not work, whatever the record:
// no connection, no answer in time, "I am overloaded": see circuit.
func Outage(err error) error {
	if err == nil {
		err = errors.New("what it is delivered to does not work")
	}
	return outageError{err}
}

type outageError struct{ error }

func (outageError) Outage() bool { return true }

// Unwrap is for errors.Is.
func (e outageError) Unwrap() error { return e.error }

type timedError struct {
	error
	after time.Duration
}

func (e timedError) RetryAfter() time.Duration { return e.after }

// Unwrap is for errors.Is.
func (e timedError) Unwrap() error { return e.error }
