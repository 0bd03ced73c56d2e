package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/internal/fault"
)

func (a *app) subscriptionWhy() *cobra.Command {
	return &cobra.Command{
		Use:   "why NAME KEY",
		Short: "Say why records of a key are not delivered",
		Long: `Say what holds the records of a key back: the record that is tried again or was given
up, what it answered last, when it is tried next, and how many wait behind it. Of a
record that is held in memory before it is parked only its owner knows.`,
		Example: `  ringfence subscription why billing acct-42`,
		Args:    cobra.ExactArgs(2),
		RunE: a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
			out, err := rf.Admin().ExplainKey(ctx, args[0], []byte(args[1]))
			if err != nil && len(out) == 0 {
				return err
			}
			return errors.Join(err, a.emit(out, func(r *report) {
				if len(out) == 0 {
					key := args[1]
					if key == "" {
						key = `""`
					}
					r.line("nothing of key %s is parked", key)
				}
				for _, b := range out {
					r.line("shard %d, owner %s in epoch %d", b.Shard, dash(b.Owner), b.Epoch)
					if b.Status == "delayed" {
						r.line("%s is delayed, and due %s", b.ID, dash(string(b.Due)))
						r.line("%s behind it", plural(int64(b.Followers), "record"))
						continue
					}
					r.line("%s is %s after %s, first at %s: %s", b.ID, b.Status, plural(int64(b.Attempts), "attempt"), dash(string(b.FailedAt)), dash(b.Answer))
					switch {
					case b.Status == "retrying":
						r.line("next attempt %s", dash(string(b.Due)))
					case b.Ordered != "":
						r.line("it is to be %s as soon as a process delivers the subscription", string(b.Ordered))
					default:
						r.line("until it is redriven, edited, skipped or discarded: ringfence subscription dead-letters redrive %s --id %s", args[0], b.ID)
					}
					r.line("%s behind it", plural(int64(b.Followers), "record"))
				}
			}))
		}),
	}
}

func (a *app) deadLettersShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME ID",
		Short: "Show one record that is not delivered, as a line of JSON",
		Args:  cobra.ExactArgs(2),
		RunE: a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
			list, err := rf.Admin().ListDeadLetters(ctx, args[0], &admin.DeadLetterOptions{IDs: args[1:]})
			if err != nil && len(list) == 0 {
				return err
			}
			if len(list) == 0 {
				return fmt.Errorf("subscription %q has no record %q that waits for a decision: %w", args[0], args[1], fault.NotFound)
			}
			return errors.Join(err, a.writeDeadLetters(list))
		}),
	}
}

// nameFirst lets the name of a subscription come before the verb, as in "dead-letters billing list".
func nameFirst(args []string) []string {
	at := slices.IndexFunc(args, func(s string) bool { return s == "dead-letters" || s == "dlq" })
	if at < 1 || !slices.Contains([]string{"subscription", "subscriptions", "sub"}, args[at-1]) || at+2 >= len(args) {
		return args
	}
	verb := func(s string) bool {
		return slices.Contains([]string{"list", "show", "export", "redrive", "skip", "edit", "discard"}, s)
	}
	if verb(args[at+1]) || !verb(args[at+2]) {
		return args
	}
	args = slices.Clone(args)
	args[at+1], args[at+2] = args[at+2], args[at+1]
	return args
}
