package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/document"
	"github.com/ringfence/ringfence/push"
)

// What the owners of shards tell with their progress: whether the breaker is open, and what is used of limits.

// breakerView says where deliveries are held back.
type breakerView struct {
	State string       `json:"state"` // closed, or open in at least one member
	Open  []openMember `json:"open,omitempty"`
}

// openMember is a member whose breaker is open.
type openMember struct {
	Member string `json:"member"`
	Shards []int  `json:"shards"`
	Since  string `json:"since"`
	Why    string `json:"why"`               // what it goes to said
	Next   string `json:"next_at,omitempty"` // nothing is tried before; "": one record is tried each second
}

// breakerOf sums up what owners tell; nil: nobody delivers.
func breakerOf(g *document.Group) *breakerView {
	if g == nil || len(g.Members) == 0 {
		return nil
	}
	v := breakerView{State: "closed"}
	for _, m := range g.Members {
		// A process has one breaker for all its shards, some of which may not have begun, and tell nothing.
		open, told := openMember{Member: m.ID}, false
		for _, u := range g.Units {
			if u.Owner != m.ID {
				continue
			}
			open.Shards = append(open.Shards, u.Unit)
			if d := u.Deliveries; d != nil && d.HeldBack != nil && !told {
				told, open.Since, open.Why = true, document.Time(d.HeldBack.Since), d.HeldBack.Why
				if d.HeldBack.Next > 0 {
					open.Next = document.Time(d.HeldBack.Next)
				}
			}
		}
		if told {
			v.State, v.Open = "open", append(v.Open, open)
		}
	}
	return &v
}

func breakerLines(r *report, v *breakerView) {
	if v == nil {
		return
	}
	if v.State == "closed" {
		r.line("breaker: closed")
	}
	for _, o := range v.Open {
		shards := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(o.Shards)), ", "), "[]")
		next := "one record is tried each second"
		if o.Next != "" {
			next = "the next try is at " + o.Next
		}
		r.line("breaker: open since %s at %s (shards %s): %q; %s", o.Since, o.Member, shards, o.Why, next)
	}
}

// used is what is used of limits, as the owners of shards have told.
type used struct {
	Rate    float64 `json:"rate"`    // attempts that begin in a second
	Running int     `json:"running"` // attempts under way
	At      string  `json:"at"`      // when the oldest of it was told

	at int64
}

// with adds what one shard uses.
func (u *used) with(told *protocol.Deliveries) *used {
	if told == nil {
		return u
	}
	if u == nil {
		u = &used{at: told.At}
	}
	u.Rate += told.Rate
	u.Running += told.Running
	u.at = min(u.at, told.At)
	u.At = document.Time(u.at)
	return u
}

func usedBy(g *document.Group, member string) (all *used) {
	for _, u := range g.Units {
		if u.Owner == member {
			all = all.with(u.Deliveries)
		}
	}
	return all
}

func (u *used) text(now time.Time) string {
	return fmt.Sprintf("%.4g a second, %d at once, as of %s ago", u.Rate, u.Running, ageText(max(1, now.UnixMilli()-u.at)))
}

// endpointView are the limits of an endpoint, which members have by their flags.
type endpointView struct {
	Origin  string         `json:"origin"`
	Members []endpointPart `json:"members"`
	Used    *used          `json:"used,omitempty"` // by all subscriptions that go there; nil: none has told anything
}

// endpointPart is what one member says of them, and has of them.
type endpointPart struct {
	Member string `json:"member"`
	protocol.EndpointPart
}

// endpointOf is what members of a subscription tell of the limits of its endpoint, and what all use that go there;
// nil: they have none.
func endpointOf(ctx context.Context, rf *ringfence.Client, d *ringfence.SubscriptionInfo, g *document.Group) (*endpointView, error) {
	if g == nil || d.Endpoint == nil {
		return nil, nil
	}
	var v endpointView
	for _, m := range g.Members {
		for _, u := range g.Units {
			if u.Owner == m.ID && u.Deliveries != nil && u.Deliveries.Endpoint != nil {
				v.Members = append(v.Members, endpointPart{m.ID, *u.Deliveries.Endpoint})
				break
			}
		}
	}
	if v.Members == nil {
		return nil, nil
	}
	v.Origin, _ = push.OriginOf(d.Endpoint.URL) // a definition has no other
	all, err := rf.Subscriptions(ctx)
	if err != nil {
		return &v, err
	}
	for _, other := range all {
		if other.Endpoint == nil {
			continue
		}
		if origin, err := push.OriginOf(other.Endpoint.URL); err != nil || origin != v.Origin {
			continue
		}
		of, err := group.Describe(ctx, rf.Registry(), other.Group())
		if errors.Is(err, ringfence.ErrNotFound) {
			continue // nobody has delivered it yet
		}
		if err != nil {
			return &v, err
		}
		for i := range of.Units {
			v.Used = v.Used.with(of.Units[i].Told())
		}
	}
	return &v, nil
}

func endpointLines(r *report, v *endpointView) {
	if v == nil {
		return
	}
	for _, m := range v.Members {
		var most, here []string
		if m.Rate > 0 {
			most, here = append(most, fmt.Sprintf("%.4g a second", m.Rate)), append(here, fmt.Sprintf("%.4g a second", m.RateHere))
		}
		if m.Concurrency > 0 {
			most, here = append(most, fmt.Sprintf("%d at once", m.Concurrency)), append(here, fmt.Sprintf("%d at once", m.ConcurrencyHere))
		}
		r.line("%s gets at most %s from all; of it the process of %s has %s", v.Origin, strings.Join(most, ", "), m.Member, strings.Join(here, ", "))
	}
	if v.Used != nil {
		r.line("  all use %s", v.Used.text(time.Now()))
	}
}
