package admin

import (
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/spell"
	"github.com/ringfence/ringfence/subscription"
)

// ofSubscription says what is wrong with a subscription.
func (s *survey) ofSubscription(d *api.SubscriptionStatus) []api.Finding {
	of := &subject{
		what: "subscription", name: d.Name, deliver: "ringfence subscription run " + d.Name + " --exec COMMAND",
		resume: "ringfence subscription resume " + d.Name, seek: "ringfence subscription reset " + d.Name,
	}
	switch {
	case d.Order == api.OrderByFunction:
		of.deliver = "" // only a program that has the function
	case d.Endpoint != nil:
		of.deliver = "ringfence serve"
	}
	describe := "ringfence subscription describe " + d.Name
	if d.Damaged != "" {
		return []api.Finding{s.finding(of, api.Critical, api.FoundUnreadable, "", describe, "its definition can't be used: %s", d.Damaged)}
	}
	var all []api.Finding
	for _, p := range d.Problems {
		all = append(all, s.finding(of, api.Critical, api.FoundProblem, "", describe, "%s", p))
	}
	if d.Group != nil {
		all = append(all, s.ofUnits(of, d.Group)...)
	}
	if d.Paused != nil {
		all = append(all, s.ofPause(of, d))
	} else {
		all = append(all, s.ofDelivery(of, d)...)
	}
	return append(all, s.ofBacklog(of, d)...)
}

func (s *survey) ofPause(of *subject, d *api.SubscriptionStatus) api.Finding {
	severity, why := api.Warning, by(d.Paused.By)
	if d.Paused.By == subscription.ByEndpoint {
		severity, why = api.Critical, " by an answer of the endpoint"
	}
	if d.Paused.Reason != "" {
		why += ": " + d.Paused.Reason
	}
	if d.Group != nil && d.Group.Lag > 0 {
		why += "; " + waits(d.Group)
	}
	return s.finding(of, severity, api.FoundPaused, d.Paused.Since, of.resume, "it is paused%s", why)
}

// ofDelivery says what keeps records from their first attempt.
func (s *survey) ofDelivery(of *subject, d *api.SubscriptionStatus) (all []api.Finding) {
	describe, retry := "ringfence subscription describe "+d.Name, "ringfence subscription retry "+d.Name+" --all"
	g := d.Group
	if g == nil {
		if len(d.Problems) > 0 {
			return nil
		}
		what := "it"
		if d.Changing() {
			what = "its newest shard set"
		}
		return []api.Finding{s.finding(of, api.Critical, api.FoundNoMember, d.Created, of.deliver, "%s was never delivered", what)}
	}
	waiting := g.Lag > 0 || d.Parked.Records > d.Blocked || d.Changing()
	if len(g.Members) == 0 && waiting && g.Lag == 0 {
		return []api.Finding{s.finding(of, api.Critical, api.FoundNoMember, d.Parked.OldestAt, of.deliver, "what is parked waits, or a reshard or reset, and it has no member")}
	}
	if d.Breaker != nil {
		for _, o := range d.Breaker.Open {
			all = append(all, s.finding(of, api.Critical, api.FoundBreaker, o.Since, retry, "deliveries of %s are held back, one record at a time is tried: %s", o.Member, o.Why))
		}
	}
	for _, m := range d.Limited {
		if m.Backoff > 0 {
			all = append(all, s.finding(of, api.Warning, api.FoundSlow, "", describe, "%s tries at most %.4g a second, as most are refused for want of capacity", m.Member, m.Backoff))
		}
	}
	owners := s.ofOwners(of, g)
	if len(all) > 0 { // which explains why records wait
		owners = slices.DeleteFunc(owners, func(f api.Finding) bool { return f.Kind == api.FoundBehind })
	}
	return append(all, owners...)
}

// ofBacklog says what was given up, and what is tried again.
func (s *survey) ofBacklog(of *subject, d *api.SubscriptionStatus) (all []api.Finding) {
	if n := int64(d.Dead.Records); n > 0 {
		behind := ""
		if d.Blocked > 0 {
			behind = fmt.Sprintf("; %s behind them", spell.Plural(int64(d.Blocked), "record"))
		}
		all = append(all, s.finding(of, api.Warning, api.FoundDead, d.Dead.OldestAt, "ringfence subscription dead-letters list "+d.Name, "%s%s", spell.Plural(n, "dead letter"), behind))
	}
	if d.Failing > 0 {
		all = append(all, s.finding(of, api.Warning, api.FoundParked, d.Parked.OldestAt, "ringfence subscription retry "+d.Name+" --all",
			"%s: %d failed and tried again, the rest behind them, behind dead letters, or delayed", spell.Plural(int64(d.Parked.Records), "parked record"), d.Failing))
	}
	return all
}
