package admin

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/subscription/core"
)

// DeadLetterOptions choose among dead letters; the zero value chooses all.
type DeadLetterOptions struct {
	IDs   []string
	Key   []byte    // nil: any
	Since time.Time // only those that failed for the first time then or later; zero: any
	// Decided makes ListDeadLetters list also what was decided about in the last 30 days: redriven, edited, skipped, discarded.
	Decided bool
	// Filter is an expression such as `answer contains "404"`, see SubscriptionConfig.Filter: it sees status, reason, attempts
	// and answer too. Dead letters that it can't be computed for are not chosen. "": all.
	Filter string
	// DryRun makes RedriveDeadLetters, SkipDeadLetters and DiscardDeadLetters order nothing: they return how many they would
	// order about, or what is in the way as far as it is known.
	DryRun bool
	By     string // the user that decides; default user@host of this process
}

// ListDeadLetters lists what is not delivered until it is decided about, in order of key and place. With an error it lists what
// could be read.
func (c *Client) ListDeadLetters(ctx context.Context, name string, opts *DeadLetterOptions) ([]api.DeadLetter, error) {
	return c.subs.DeadLetters(ctx, name, (*subscription.Choice)(opts))
}

// RedriveDeadLetters orders that dead letters be delivered again, each in its place in the order of its key, before what waits
// behind it. It returns how many these are. Members carry the order out, as soon as there are some.
//
// ErrNotFound when an ID is none; ErrConflict when it is decided about already, or waits behind a dead letter: nothing is ordered
// then. ErrConflict, with how many the order was in time for, when another order came first. Without IDs dead letters that are
// decided about are passed over.
func (c *Client) RedriveDeadLetters(ctx context.Context, name string, opts *DeadLetterOptions) (int, error) {
	return c.subs.Order(ctx, name, (*subscription.Choice)(opts), core.Redrive, nil)
}

// DiscardDeadLetters orders that dead letters be finished as they are: the keys that they block go on without them. A parked
// record too, which is tried again, is finished when its ID is named, or it has failed and its key is. Its errors are those of
// RedriveDeadLetters.
func (c *Client) DiscardDeadLetters(ctx context.Context, name string, opts *DeadLetterOptions) (int, error) {
	return c.subs.Order(ctx, name, (*subscription.Choice)(opts), core.Discard, nil)
}

// SkipDeadLetters is DiscardDeadLetters for what is dealt with in another way: it is remembered as skipped.
func (c *Client) SkipDeadLetters(ctx context.Context, name string, opts *DeadLetterOptions) (int, error) {
	return c.subs.Order(ctx, name, (*subscription.Choice)(opts), core.Pass, nil)
}

// EditDeadLetter is RedriveDeadLetters of one dead letter with another value. The record keeps its key, its place in the order of
// that and its headers, and gets the header ringfence-edited. ErrInvalid when it is too large.
func (c *Client) EditDeadLetter(ctx context.Context, name, id string, value []byte) error {
	_, err := c.subs.Order(ctx, name, &subscription.Choice{IDs: []string{id}}, core.Edit, value)
	return err
}

// CountBacklog counts what a subscription holds back: parked records and dead letters. With an error it counts what could be read.
func (c *Client) CountBacklog(ctx context.Context, name string) (api.Backlog, error) {
	return c.subs.Backlog(ctx, name)
}
