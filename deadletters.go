package ringfence

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/subscription/core"
)

// DeadLetterStatus says what holds a record back, or what was decided about it.
type DeadLetterStatus = subscription.Status

// The statuses.
const (
	StatusFailed    DeadLetterStatus = subscription.StatusFailed    // it was given up
	StatusBlocked   DeadLetterStatus = subscription.StatusBlocked   // it waits behind one of its key that was
	StatusRedriven  DeadLetterStatus = subscription.StatusRedriven  // it was delivered again, or is as soon as it may be
	StatusSkipped   DeadLetterStatus = subscription.StatusSkipped   // it was passed over
	StatusDiscarded DeadLetterStatus = subscription.StatusDiscarded // it was finished as it is
	StatusEdited    DeadLetterStatus = subscription.StatusEdited    // it was delivered again with another value, or is as soon as it may be
)

// HeaderEdited is the header of a record whose value Edit has changed: the ID of the dead letter in whose
// place it was put.
const HeaderEdited = subscription.Edited

// DeadLetter is a record of a subscription that is not delivered until somebody decides, or of which
// somebody has decided.
type DeadLetter = subscription.DeadLetter

// DeadLetterOptions choose among dead letters; the zero value chooses all.
type DeadLetterOptions struct {
	IDs   []string
	Key   []byte    // nil: any
	Since time.Time // only those that failed for the first time then or later; zero: any
	// Decided has DeadLetters list those too of which somebody has decided: redriven, skipped, discarded, edited.
	Decided bool
	// Filter is an expression such as `answer contains "404"`, see SubscriptionConfig.Filter: it sees status,
	// reason, attempts and answer too. Those that it can't be computed for are not chosen. "": all.
	Filter string
	// DryRun has Redrive, Discard and Skip order nothing: they return how many they would order about, or what
	// is in the way as far as it is known.
	DryRun bool
}

// DeadLetters lists what is not delivered until somebody decides, in order of key and place. With an error
// it lists what could be read.
func (c *Client) DeadLetters(ctx context.Context, name string, opts *DeadLetterOptions) ([]DeadLetter, error) {
	return c.subs.DeadLetters(ctx, name, (*subscription.Choice)(opts))
}

// Redrive orders that dead letters be delivered again, each in its place in the order of its key, before
// what waits behind it. It returns how many that are; the members of the subscription do it as soon as
// there are some. ErrNotFound when an ID is none; ErrConflict when it was one and somebody has decided about
// it, or when it waits behind one: nothing is ordered then. ErrConflict, with how many it was in time for, when
// somebody else's order about some of them came first. Without IDs it passes over those that have one already.
func (c *Client) Redrive(ctx context.Context, name string, opts *DeadLetterOptions) (int, error) {
	return c.subs.Order(ctx, name, (*subscription.Choice)(opts), core.Redrive, nil)
}

// Discard orders that dead letters be finished as they are: the keys that they block go on without them. Its
// errors are those of Redrive.
func (c *Client) Discard(ctx context.Context, name string, opts *DeadLetterOptions) (int, error) {
	return c.subs.Order(ctx, name, (*subscription.Choice)(opts), core.Discard, nil)
}

// Skip is Discard for what is dealt with in another way: it is remembered as skipped.
func (c *Client) Skip(ctx context.Context, name string, opts *DeadLetterOptions) (int, error) {
	return c.subs.Order(ctx, name, (*subscription.Choice)(opts), core.Pass, nil)
}

// Edit is Redrive of one dead letter with another value. The record keeps its key, its place in the order of
// that and its headers, and has HeaderEdited besides. ErrInvalid when it is too large.
func (c *Client) Edit(ctx context.Context, name, id string, value []byte) error {
	_, err := c.subs.Order(ctx, name, &subscription.Choice{IDs: []string{id}}, core.Edit, value)
	return err
}

// Backlog is what a subscription has taken from its topic and holds back. What it has not read yet is the lag
// of its group.
type Backlog = subscription.Backlog

// BacklogHeap is one part of a Backlog.
type BacklogHeap = subscription.Heap

// Backlog counts what a subscription holds back: parked records and dead letters. What the members hold in
// memory before it is parked is not in it. With an error it counts what could be read.
func (c *Client) Backlog(ctx context.Context, name string) (*Backlog, error) {
	return c.subs.Backlog(ctx, name)
}

// Blockage is what holds records of a key back in one shard of a subscription.
type Blockage = subscription.Blockage

// Why says why records of a key are not delivered: one Blockage for each shard that has some of the key
// parked. With none, the records of the key are delivered as they come; one that fails is held in memory
// for a while before it is parked, and only its owner knows of that. With an error it says what could be
// read; ErrInvalid for a subscription with OrderNone, where no record waits for another one.
func (c *Client) Why(ctx context.Context, name string, key []byte) ([]Blockage, error) {
	return c.subs.Why(ctx, name, key)
}
