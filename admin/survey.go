package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription"
)

// survey is one look at all topics, groups and subscriptions of a namespace: status and check are computed from it.
type survey struct {
	now        time.Time
	topics     []api.TopicSummary
	groups     []api.Group // with their units; without those of subscriptions
	subs       []*api.SubscriptionStatus
	unfinished []api.Finding
	checked    []*api.TopicCheck // of the readable topics
}

// survey looks at everything. What can't be read says so in its place, and hides nothing else.
func (c *Client) survey(ctx context.Context) (*survey, error) {
	s := &survey{now: time.Now()}
	var err error
	if s.topics, err = c.ListTopics(ctx); err != nil {
		return nil, err
	}
	s.topics = slices.DeleteFunc(s.topics, func(t api.TopicSummary) bool { return t.Internal != "" })
	if s.groups, err = c.groupsWithUnits(ctx); err != nil {
		return nil, err
	}
	if s.subs, err = c.subscriptionsWithUnits(ctx); err != nil {
		return nil, err
	}
	if s.unfinished, err = c.unfinished(ctx); err == nil {
		s.checked, err = c.checkedTopics(ctx, s.topics)
	}
	return s, err
}

// checkedTopics compares topics with what the log has of them.
func (c *Client) checkedTopics(ctx context.Context, topics []api.TopicSummary) (all []*api.TopicCheck, _ error) {
	for i := range topics {
		t := &topics[i]
		if t.Damaged != "" || t.Moved != nil {
			continue
		}
		found, err := c.CheckTopic(ctx, t.Name)
		switch {
		case errors.Is(err, fault.NotFound): // deleted since it was listed
		case err == nil:
			all = append(all, found)
		case ctx.Err() != nil:
			return all, context.Cause(ctx)
		default:
			all = append(all, &api.TopicCheck{Topic: t.Name, Problem: err.Error()})
		}
	}
	return all, nil
}

// groupsWithUnits describes all groups but those of subscriptions.
func (c *Client) groupsWithUnits(ctx context.Context) ([]api.Group, error) {
	all, err := c.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(g api.Group) bool {
		_, _, of := subscription.OfGroup(g.Name)
		return of
	})
	for i := range all {
		if err := c.measure(ctx, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// measure adds the units and the lag to a listed group, or why it can't be read.
func (c *Client) measure(ctx context.Context, g *api.Group) error {
	if g.Damaged != "" {
		return nil
	}
	full, err := c.DescribeGroup(ctx, g.Name)
	switch {
	case err == nil:
		*g = full
	case errors.Is(err, fault.NotFound): // it, or its topic, was deleted since: the list has the rest
	case errors.Is(err, fault.Corrupt), errors.Is(err, fault.Invalid):
		g.Damaged, g.State = err.Error(), "damaged"
	default:
		return err
	}
	return nil
}

// MeasureSubscriptions is ListSubscriptions with the group, the backlog and the breaker of each, as DescribeSubscription
// has them, without units. It reads all checkpoints and all that is parked. What can't be read is missing, and told in
// Problems.
func (c *Client) MeasureSubscriptions(ctx context.Context) ([]*api.SubscriptionStatus, error) {
	all, err := c.subscriptionsWithUnits(ctx)
	for _, s := range all {
		if s.Group != nil {
			s.Group.Units = nil
		}
	}
	return all, err
}

func (c *Client) subscriptionsWithUnits(ctx context.Context) ([]*api.SubscriptionStatus, error) {
	list, err := c.ListSubscriptions(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]*api.SubscriptionStatus, 0, len(list))
	for _, d := range list {
		s := &api.SubscriptionStatus{Subscription: *d}
		if d.Damaged == "" {
			full, err := c.DescribeSubscription(ctx, d.Name)
			switch {
			case ctx.Err() != nil:
				return all, context.Cause(ctx)
			case full != nil:
				s = full // an error stands in its Problems
			case errors.Is(err, fault.NotFound):
				continue // deleted since it was listed
			default:
				s.Problems = append(s.Problems, err.Error())
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// unfinished finds the creations and deletions that were begun and did not end.
func (c *Client) unfinished(ctx context.Context) ([]api.Finding, error) {
	topics, err := c.catalog.Unfinished(ctx)
	if err != nil {
		return nil, err
	}
	var all []api.Finding
	for _, d := range topics {
		all = append(all, half("topic", d.Name, string(d.State), d.Created, fmt.Sprintf("--partitions %d --router %s --hash %s", d.Storage[0].Partitions, d.Router, d.Hash)))
	}
	subs, err := c.subs.Unfinished(ctx)
	for _, d := range subs {
		all = append(all, half("subscription", d.Name, d.State, d.Created, fmt.Sprintf("--topic %s --order %s", d.Topic, d.Order)))
	}
	return all, err
}

// half is a creation or a deletion that has not ended. flags are those without which the creation is refused.
func half(what, name, state string, created int64, flags string) api.Finding {
	f := api.Finding{Severity: api.Warning, Kind: api.FoundUnfinished, What: what, Name: name}
	if state == "deleting" {
		f.Cause, f.Command = "its deletion was begun and has not ended", "ringfence "+what+" delete "+name
		return f
	}
	f.Since, f.Cause, f.Command = api.Millis(created), "its creation was begun and has not ended", "ringfence "+what+" create "+name+" "+flags
	return f
}

// Status finds what is wrong with the topics, groups and subscriptions of the namespace.
func (c *Client) Status(ctx context.Context) (*api.Status, error) {
	s, err := c.survey(ctx)
	if err != nil {
		return nil, err
	}
	return &api.Status{At: api.TimeOf(s.now), Findings: s.findings(), Topics: len(s.topics), Groups: len(s.groups), Subscriptions: len(s.subs)}, nil
}

// findings are all that is wrong, the worst and the oldest first.
func (s *survey) findings() []api.Finding {
	all := append([]api.Finding{}, s.unfinished...)
	for i := range s.topics {
		all = append(all, topicFindings(&s.topics[i])...)
	}
	for _, t := range s.checked {
		all = append(all, checkFindings(t)...)
	}
	for i := range s.groups {
		all = append(all, s.ofGroup(&s.groups[i])...)
	}
	for _, d := range s.subs {
		all = append(all, s.ofSubscription(d)...)
	}
	slices.SortStableFunc(all, func(a, b api.Finding) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(sinceOrNow(a.Since), sinceOrNow(b.Since)), cmp.Compare(a.What, b.What), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func rank(s api.Severity) int {
	if s == api.Critical {
		return 0
	}
	return 1
}

// sinceOrNow sorts what is of an unknown age behind the rest.
func sinceOrNow(t api.Time) api.Time { return cmp.Or(t, "~") }
