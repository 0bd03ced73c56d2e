package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence/api"
)

// What the owners of shards tell with their progress: whether the breaker is open, and what is used of limits.

func breakerLines(r *report, v *api.Breaker) {
	if v == nil {
		return
	}
	if v.State == "closed" {
		r.line("breaker: closed")
	}
	for _, o := range v.Open {
		shards := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(o.Shards)), ", "), "[]")
		next := "one record is tried each second"
		if string(o.Next) != "" {
			next = "the next try is at " + string(o.Next)
		}
		r.line("breaker: open since %s at %s (shards %s): %q; %s", string(o.Since), o.Member, shards, o.Why, next)
	}
}

func usedText(u *api.Used, now time.Time) string {
	return fmt.Sprintf("%.4g a second, %d at once, as of %s ago", u.Rate, u.Running, ageText(max(1, now.Sub(u.At.Time()).Milliseconds())))
}

func endpointLines(r *report, v *api.EndpointLimits) {
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
		r.line("  all use %s", usedText(v.Used, time.Now()))
	}
}
