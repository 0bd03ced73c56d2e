package shard

import (
	"errors"
	"time"
)

// What a handler can say about a failure. Callers ask by interfaces, so handlers need not import this
// package.

// Permanent marks an error: the record can never succeed, and becomes a dead letter at once.
func Permanent(err error) error {
	if err == nil {
		err = errors.New("refused")
	}
	return permanentError{err}
}

type permanentError struct{ error }

func (permanentError) Permanent() bool { return true }

// Unwrap serves errors.Is.
func (e permanentError) Unwrap() error { return e.error }

// RetryAfter marks an error with the time until the next attempt: at most as long as the policy lets an answer ask for.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		err = errors.New("try again later")
	}
	return timedError{err, d}
}

// Outage marks an error: the endpoint does not work, whatever the record: no connection, no answer in
// time, "I am overloaded". See circuit.
func Outage(err error) error {
	if err == nil {
		err = errors.New("what it is delivered to does not work")
	}
	return outageError{err}
}

type outageError struct{ error }

func (outageError) Outage() bool { return true }

// Unwrap serves errors.Is.
func (e outageError) Unwrap() error { return e.error }

type timedError struct {
	error
	after time.Duration
}

func (e timedError) RetryAfter() time.Duration { return e.after }

// Unwrap serves errors.Is.
func (e timedError) Unwrap() error { return e.error }
