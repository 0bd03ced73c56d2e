package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why NAME KEY",
		Short: "Say where the records of a key are in a group or a subscription, and what holds them back",
		Long: `Say where the records of a key are in a group or a subscription: done, waiting behind
others, held in memory by a member after a failure, parked or delayed, or behind a dead
letter; and what holds everything back, such as a pause, an endpoint that does not work,
or that no member is there. It looks where the router puts the key. What is not known is
said.`,
		Example:           `  ringfence why billing acct-42`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: first(a.offers(consumerNames)),
		RunE: show(a, func(ctx context.Context, c *admin.Client, args []string) (*api.KeyAnswer, error) {
			return c.ExplainKey(ctx, args[0], []byte(args[1]))
		}, whyReport),
	}
}

// subscriptionWhy is "why" below the noun.
func (a *app) subscriptionWhy() *cobra.Command {
	cmd := a.whyCommand()
	cmd.Example, cmd.Args, cmd.ValidArgsFunction = `  ringfence subscription why billing acct-42`, nil, nil
	return cmd
}

func whyReport(r *report, w *api.KeyAnswer) {
	key := w.Key
	if w.KeyEncoding != "" || key == "" {
		key = strconv.Quote(key)
	}
	r.line("key %s of %s %s: %s", key, w.What, w.Name, r.paint(bold, keyState(w)))
	for i := range w.Blocked {
		blockedLines(r, w.Name, &w.Blocked[i])
	}
	for i := range w.Waiting {
		waitLines(r, &w.Waiting[i])
	}
	now := time.Now()
	if len(w.Holding) > 0 {
		r.line("what holds everything back:")
	}
	for i := range w.Holding {
		findingLines(r, &w.Holding[i], now)
	}
	for _, u := range w.Unknown {
		r.line("not known: %s", u)
	}
}

// keyState is the answer in a few words.
func keyState(w *api.KeyAnswer) string {
	switch w.State {
	case api.KeyDone:
		return "no record of it waits; those there were are delivered, passed over or decided about"
	case api.KeyWaiting:
		if len(w.Holding) > 0 {
			return "its records wait, and are not tried"
		}
		return "its records wait for their turn"
	case api.KeyHeld:
		return "a record failed, and its owner holds it in memory"
	case api.KeyDelayed:
		return "its time has not come"
	case api.KeyParked:
		return "a record failed, is parked and tried again"
	case api.KeyDead:
		return "a record was given up, and the others wait behind it"
	}
	return "it can't be told"
}

func waitLines(r *report, w *api.KeyWait) {
	place, owner := partitionName(w.Storage, w.Partition), "no living owner"
	if w.Owner != "" {
		owner = fmt.Sprintf("owner %s in epoch %d", w.Owner, w.Epoch)
	}
	if w.Records > 0 {
		behind := "the next one there"
		if w.Before > 0 {
			behind = "behind " + plural(w.Before, "other record")
		}
		r.line("partition %s: %s not finished, the first at offset %d, %s; %s", place, plural(w.Records, "record"), w.Offset, behind, owner)
	}
	if h := w.Held; h != nil {
		r.line("offset %d is held in memory by %s after %s, first at %s; next attempt %s; %s", w.Offset, cmp.Or(w.Owner, "the next owner"), plural(h.Attempts, "failed attempt"), dash(string(h.Since)), dash(string(h.Due)), cmp.Or(h.Answer, "its log has the answer"))
	}
	if w.Unseen > 0 {
		r.line("partition %s: the last %s were not looked at; %s", place, plural(w.Unseen, "offset"), owner)
	}
}

func blockedLines(r *report, name string, b *api.BlockedKey) {
	r.line("shard %d, owner %s in epoch %d", b.Shard, dash(b.Owner), b.Epoch)
	if b.Status == "delayed" {
		r.line("%s is delayed, and due %s", b.ID, dash(string(b.Due)))
	} else {
		attempts := plural(b.Attempts, "attempt")
		if b.Attempts == 0 {
			attempts += " that count"
		}
		r.line("%s is %s after %s, first at %s: %s", b.ID, b.Status, attempts, dash(string(b.FailedAt)), dash(b.Answer))
	}
	switch {
	case b.Status == "delayed":
	case b.Status == "retrying":
		r.line("next attempt %s", dash(string(b.Due)))
	case b.Ordered != "":
		r.line("it is to be %s as soon as a process delivers the subscription", string(b.Ordered))
	default:
		r.line("until it is redriven, edited, skipped or discarded: ringfence subscription dead-letters redrive %s --id %s", name, b.ID)
	}
	r.line("%s behind it", plural(b.Followers, "record"))
}
