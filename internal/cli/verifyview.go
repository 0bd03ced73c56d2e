package cli

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/internal/verify"
)

// verifying shows how far a run got: on a terminal always, else once a second at most, and less in long runs.
func (p *progress) verifying(length time.Duration) func(verify.Progress) {
	every, last := max(time.Second, length/60), time.Time{}
	return func(v verify.Progress) {
		if !p.terminal && time.Since(last) < every {
			return
		}
		last = time.Now()
		text := fmt.Sprintf("%3.0f s of %s: %s; %s sent, %s acknowledged, %s processed; %d of %d faults",
			v.Elapsed.Seconds(), v.Of, v.Phase, thousands(v.Sent), thousands(v.Acked), thousands(v.Handled), v.Faults, v.Planned)
		if v.Worst > 0 {
			text += fmt.Sprintf(", longest takeover %.0f ms", float64(v.Worst)/1e6)
		}
		p.draw(text)
	}
}

func verifyReport(r *report, v *verify.Result) {
	f := &v.Figures
	r.line("stores        log %s, registry %s", v.Log, v.Registry)
	if v.Subscription {
		r.line("topic         %s, subscription %s (%.1f s, seed %d)", v.Topic, v.Group, v.Seconds, v.Seed)
	} else {
		r.line("topic, group  %s (%.1f s, seed %d)", v.Topic, v.Seconds, v.Seed)
	}
	r.line("records       %s sent, %s acknowledged, %s processed in %s deliveries", thousands(f.Sent), thousands(f.Acked), thousands(f.Handled), thousands(f.Deliveries))
	if f.Unhandled > 0 {
		r.line("not judged    %s acknowledged records that were not processed yet", thousands(f.Unhandled))
	}
	if v.Subscription {
		r.line("repeated      %s after faults, which is allowed", thousands(f.Repeated))
		r.line("dead letters  %s, %s redriven", thousands(f.DeadLetters), thousands(f.Redriven))
		r.line("shards        changed %s times; one delivered nothing for %d ms at most meanwhile", thousands(f.Turns), f.PauseMillis)
	} else {
		r.line("repeated      %s after faults; at most the %s under way when an owner was replaced", thousands(f.Repeated), thousands(f.RepeatBound))
		r.line("owners        %s takeovers, %s clean handoffs; %s commits, %s refused as stale", thousands(f.Takeovers), thousands(f.Handoffs), thousands(f.Commits), thousands(f.Refused))
	}
	if f.Grown > 0 {
		r.line("topic grew    by %s; %s finished and retired", plural(f.Grown, "storage topic"), thousands(f.Retired))
	}
	if v.Away > 0 {
		r.line("store away    %s of processes ended because of it, and were repeated", plural(int64(v.Away), "start"))
	}
	for _, n := range v.Notes {
		r.line("note          %s", n)
	}
	r.line("")
	verifyFaults(r, v)
	verifyPromises(r, v)
	for _, d := range v.Deaths {
		r.line("%s", r.paint(red, "ended by itself: "+d))
	}
	verifyVerdict(r, v)
}

func verifyFaults(r *report, v *verify.Result) {
	if len(v.Faults) == 0 {
		return
	}
	tableOf(r, []string{"fault", "planned", "done", "takeovers", "median", "longest"}, v.Faults, func(f verify.Takeover) []cell {
		return []cell{left(f.Kind), number(f.Planned), number(f.Done), number(f.Takeovers), right(millisText(f.MedianMillis)), right(millisText(f.MaxMillis))}
	})
	r.line("")
}

func millisText(ms float64) string {
	if ms == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", ms)
}

func verifyPromises(r *report, v *verify.Result) {
	tableOf(r, []string{"promise", "broken"}, v.Promises, func(p verify.Promise) []cell {
		return []cell{left(string(p.Promise)), alarmIf(p.Broken > 0, number(p.Broken))}
	})
	r.line("")
	f := &v.Figures
	r.line("%d lost, %d doubled, %d reordered, %d skipped", f.Lost, f.Doubled, f.Reordered, f.Skipped)
	for _, p := range v.Promises {
		for _, x := range p.Examples {
			r.line("\n%s: %s", r.paint(red, string(p.Promise)), x.Detail)
			for _, e := range x.Events {
				r.line("    %s", e)
			}
		}
	}
}

func verifyVerdict(r *report, v *verify.Result) {
	switch v.Verdict {
	case verify.AllKept:
		r.line("\n%s.", r.paint(green, "Every promise was kept"))
	case verify.Broken:
		what := "Promises were broken"
		if !slices.ContainsFunc(v.Promises, func(p verify.Promise) bool { return p.Broken > 0 }) {
			what = "Every promise was kept, but processes ended by themselves"
		}
		r.line("\n%s.", r.paint(red, what))
	default:
		r.line("\n%s: nothing that was seen broke a promise.", r.paint(yellow, "It did not come to its end"))
	}
	if v.Histories != "" {
		r.line("histories     %s", v.Histories)
		what := "group"
		if v.Subscription {
			what = "subscription"
		}
		r.line("data          topic %s, %s %s in %s", v.Topic, what, v.Group, cmp.Or(v.Left, v.Log))
	}
	r.line("again         %s", v.Command)
}
