// Package admin gives the orders of operators: create, describe, change and delete topics, groups, subscriptions,
// dead letters and rings.
//
// [Client] has one method an order, named by its verb and its noun: CreateTopic, PauseGroup, RedriveDeadLetters. Each
// takes a context, names and, last, its options, for which nil is the zero value. What it returns is a struct of
// package api. ringfence.Client.Admin returns the Client of a program; the command line and "apply" use the same.
//
// The errors are those of package ringfence: ErrNotFound for a thing that is not there, ErrConflict for an order that
// contradicts what is there or under way, ErrInvalid for one that can never be carried out.
package admin

import (
	"log/slog"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/topic"
)

// Client gives orders. Its methods may be called concurrently. It has no state of its own and needs no closing; the
// stores below it do.
type Client struct {
	*Rings

	groups  *consumer.Groups
	subs    *subscription.Subscriptions
	topics  *topic.Handles
	catalog *topic.Catalog
	logger  *slog.Logger
}

// New returns a client for these groups and subscriptions, and for their topics and rings.
func New(groups *consumer.Groups, subs *subscription.Subscriptions) *Client {
	return &Client{
		Rings: NewRings(groups.Registry), groups: groups, subs: subs,
		topics: groups.Topics, catalog: groups.Topics.Catalog(), logger: groups.Logger,
	}
}

// orZero is what opts points to, or the zero value.
func orZero[T any](opts *T) (o T) {
	if opts != nil {
		o = *opts
	}
	return o
}
