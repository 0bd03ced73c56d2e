package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// lister lists the names that the shell is offered.
type lister func(context.Context, *admin.Client) ([]string, error)

// holder makes a command that only holds others, whose first argument but for "create" is a name of the list.
func (a *app) holder(cmd *cobra.Command, names lister, commands ...*cobra.Command) *cobra.Command {
	cmd.Args, cmd.RunE = cobra.ArbitraryArgs, a.needsSubcommand
	cmd.AddCommand(commands...)
	offer := a.offers(names)
	for _, c := range commands {
		if strings.Contains(c.Use, " NAME") && c.Name() != "create" {
			c.ValidArgsFunction = first(offer)
		}
	}
	return cmd
}

// first offers something for the first argument only.
func first(offer cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offer(cmd, args, prefix)
	}
}

// offers gives the shell names from the stores; a store that does not answer offers nothing.
func (a *app) offers(names lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) (offered []string, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
		defer cancel()
		if a.settle(cmd) == nil {
			c := a.clientConfig()
			c.MustExist = true
			if rf, err := ringfence.Open(ctx, c); err == nil {
				defer rf.Close()
				if list, err := names(ctx, rf.Admin()); err == nil {
					offered = list
				}
			}
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}

// named are the names of what is listed.
func named[T any](ctx context.Context, list func(context.Context) ([]T, error), name func(T) string) (names []string, _ error) {
	all, err := list(ctx)
	for _, v := range all {
		names = append(names, name(v))
	}
	return slices.Compact(names), err
}

func topicNames(ctx context.Context, c *admin.Client) ([]string, error) {
	return named(ctx, c.ListTopics, func(t api.TopicSummary) string { return t.Name })
}

func groupNames(ctx context.Context, c *admin.Client) ([]string, error) {
	return named(ctx, c.ListGroups, func(g api.Group) string { return g.Name })
}

func subscriptionNames(ctx context.Context, c *admin.Client) ([]string, error) {
	return named(ctx, c.ListSubscriptions, func(d *api.Subscription) string { return d.Name })
}

// consumerNames are those of groups and subscriptions.
func consumerNames(ctx context.Context, c *admin.Client) ([]string, error) {
	groups, err := groupNames(ctx, c)
	if err != nil {
		return nil, err
	}
	subs, err := subscriptionNames(ctx, c)
	return append(groups, subs...), err
}

func ringNames(ctx context.Context, c *admin.Client) ([]string, error) {
	return named(ctx, c.ListRings, func(d api.Ring) string { return d.Ring })
}

// storageNames are the names of the storage topics that are there.
func storageNames(ctx context.Context, c *admin.Client) (names []string, _ error) {
	topics, err := topicNames(ctx, c)
	for _, name := range topics {
		t, _ := c.DescribeTopic(ctx, name) // one that can't be read has none
		for _, s := range t.Storage {
			if !s.Retired() {
				names = append(names, s.Name)
			}
		}
	}
	return names, err
}
