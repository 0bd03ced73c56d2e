package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
)

// CheckOptions are the options of Check.
type CheckOptions struct {
	Names []string // groups and subscriptions; empty: all
	// Warn and Crit are the thresholds, nil: the default. Of lag they are records (1,000 and 10,000), of age seconds
	// (60 and 600), of dead letters records (1 and 100), of owners units without one (1 and 1). Not for "all".
	Warn, Crit *float64
}

// kindOfCheck is one thing that can be measured of a group or a subscription.
type kindOfCheck struct {
	name       string
	warn, crit float64
	group      func(*api.Group) float64 // nil: only subscriptions have it
	sub        func(*survey, *api.SubscriptionStatus) float64
}

var checks = []kindOfCheck{
	{"lag", 1000, 10_000, func(g *api.Group) float64 { return float64(g.Lag) }, func(_ *survey, d *api.SubscriptionStatus) float64 { return float64(lagOf(d)) }},
	{"age", 60, 600, func(g *api.Group) float64 { return float64(g.OldestMS) / 1000 }, (*survey).ageOf},
	{"dead-letters", 1, 100, nil, func(_ *survey, d *api.SubscriptionStatus) float64 { return float64(d.Dead.Records) }},
	{"owners", 1, 1, func(g *api.Group) float64 { return float64(ownerless(g, g.Paused, false)) }, func(_ *survey, d *api.SubscriptionStatus) float64 {
		if d.Group == nil && d.Paused == nil {
			return float64(d.Set().Shards)
		}
		return float64(ownerless(d.Group, d.Paused != nil, d.Failing > 0))
	}},
}

// lagOf is how many records a subscription has not taken from its topic.
func lagOf(d *api.SubscriptionStatus) int64 {
	if d.Group == nil {
		return 0
	}
	return d.Group.Lag
}

// ageOf is the age in seconds of the oldest record that is not processed, or fails.
func (s *survey) ageOf(d *api.SubscriptionStatus) float64 {
	age := 0.0
	if d.Group != nil {
		age = float64(d.Group.OldestMS) / 1000
	}
	if d.Failing > 0 && d.Parked.OldestAt != "" {
		age = max(age, s.now.Sub(d.Parked.OldestAt.Time()).Seconds())
	}
	return age
}

// ownerless counts the units with work that no living member owns: with records that wait, or may have parked ones. A
// pause wants no owners.
func ownerless(g *api.Group, paused, parked bool) (n int) {
	if g == nil || paused {
		return 0
	}
	for i := range g.Units {
		if u := &g.Units[i]; (u.Lag > 0 || parked) && noOwner(u) {
			n++
		}
	}
	return n
}

// noOwner reports whether no living member owns a unit that may run.
func noOwner(u *api.Unit) bool {
	return u.Phase == api.Unowned || u.Phase == api.Orphaned || u.Phase == api.Awaiting
}

// Check measures groups and subscriptions for monitoring: "lag" (records that are not processed), "age" (of the oldest of them,
// in seconds), "dead-letters", "owners" (units with work and without a living owner), or "all" of these together with what
// Status finds. ErrInvalid for another check; ErrNotFound for a name that is none.
func (c *Client) Check(ctx context.Context, check string, opts *CheckOptions) (*api.Check, error) {
	o := orZero(opts)
	of := slices.Clone(checks)
	if check != "all" {
		of = slices.DeleteFunc(of, func(k kindOfCheck) bool { return k.name != check })
	}
	if len(of) == 0 || check == "all" && (o.Warn != nil || o.Crit != nil) {
		return nil, fmt.Errorf("check %q: expected lag, age, dead-letters or owners, or all without thresholds: %w", check, fault.Invalid)
	}
	for i := range of {
		of[i].warn, of[i].crit = thresholds(&of[i], &o)
	}
	s, err := c.survey(ctx)
	if err == nil {
		err = s.only(o.Names)
	}
	if err != nil {
		return nil, err
	}
	out := &api.Check{Check: check, At: api.TimeOf(s.now), State: api.CheckOK, Measures: s.measures(of)}
	for _, m := range out.Measures {
		out.State = worse(out.State, m.State)
	}
	if check == "all" {
		out.Findings = s.findings()
		for _, f := range out.Findings {
			out.State = worse(out.State, api.CheckState(f.Severity))
		}
	}
	return out, nil
}

// thresholds are those of the options, or the defaults; one that is given moves the default of the other out of its way.
func thresholds(k *kindOfCheck, o *CheckOptions) (warn, crit float64) {
	warn, crit = k.warn, k.crit
	switch {
	case o.Warn != nil && o.Crit != nil:
		return *o.Warn, *o.Crit
	case o.Warn != nil:
		return *o.Warn, max(*o.Warn, crit)
	case o.Crit != nil:
		return min(warn, *o.Crit), *o.Crit
	}
	return warn, crit
}

// only leaves the named groups and subscriptions, and nothing else; with no names everything stays.
func (s *survey) only(names []string) error {
	if len(names) == 0 {
		return nil
	}
	found := map[string]bool{}
	keep := func(name string) bool {
		if slices.Contains(names, name) {
			found[name] = true
		}
		return found[name]
	}
	s.topics, s.checked = nil, nil
	s.groups = slices.DeleteFunc(s.groups, func(g api.Group) bool { return !keep(g.Name) })
	s.subs = slices.DeleteFunc(s.subs, func(d *api.SubscriptionStatus) bool { return !keep(d.Name) })
	s.unfinished = slices.DeleteFunc(s.unfinished, func(f api.Finding) bool { return f.What == "topic" || !keep(f.Name) })
	for _, name := range names {
		if !found[name] {
			return fmt.Errorf("no group and no subscription has the name %q: %w", name, fault.NotFound)
		}
	}
	return nil
}

func (s *survey) measures(of []kindOfCheck) []api.Measure {
	all := []api.Measure{}
	for _, k := range of {
		for i := range s.groups {
			g := &s.groups[i]
			if k.group != nil {
				m := api.Measure{Check: k.name, What: "group", Name: g.Name, Topic: g.Topic, Problem: g.Damaged}
				all = append(all, k.judged(m, func() float64 { return k.group(g) }))
			}
		}
		for _, d := range s.subs {
			m := api.Measure{Check: k.name, What: "subscription", Name: d.Name, Topic: d.Topic, Problem: d.Damaged}
			if m.Problem == "" {
				m.Problem = strings.Join(d.Problems, "; ")
			}
			all = append(all, k.judged(m, func() float64 { return k.sub(s, d) }))
		}
	}
	return all
}

// judged completes a measure with its value, if that is known, and its state.
func (k *kindOfCheck) judged(m api.Measure, value func() float64) api.Measure {
	m.Warn, m.Crit, m.State = k.warn, k.crit, api.CheckUnknown
	if m.Problem != "" {
		return m
	}
	m.Value, m.State = value(), api.CheckOK
	switch {
	case m.Value >= m.Crit:
		m.State = api.CheckCritical
	case m.Value >= m.Warn:
		m.State = api.CheckWarning
	}
	return m
}

// worse is the worse one of two states.
func worse(a, b api.CheckState) api.CheckState {
	for _, s := range []api.CheckState{api.CheckCritical, api.CheckUnknown, api.CheckWarning} {
		if a == s || b == s {
			return s
		}
	}
	return api.CheckOK
}
