package admin

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription"
)

// owned is a group of one unit with a living owner.
func owned(lag int64) api.Group {
	return api.Group{
		Name: "g", Topic: "t", State: "running", Members: []api.Member{{ID: "m"}}, Lag: lag, OldestMS: 1000,
		Units: []api.Unit{{Unit: 0, Phase: api.Owned, Owner: "m", Alive: true, Lag: lag, OldestMS: 1000, Positions: []api.Position{{Checkpoint: 5, First: 0, Next: 5 + lag, Lag: lag}}}},
	}
}

func TestStatusFindsWhatIsWrongWithAGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(*api.Group)
		kind     string
		severity api.Severity
		command  string
	}{
		"nothing":                      {func(*api.Group) {}, "", "", ""},
		"unreadable":                   {func(g *api.Group) { *g = api.Group{Name: "g", Damaged: "torn"} }, api.FoundUnreadable, api.Critical, "ringfence group describe g"},
		"no member":                    {func(g *api.Group) { g.Members = nil }, api.FoundNoMember, api.Critical, "ringfence consume t --group g --exec COMMAND"},
		"no member, and nothing to do": {func(g *api.Group) { *g = owned(0); g.Members = nil }, "", "", ""},
		"orphaned":                     {func(g *api.Group) { g.Units[0].Phase = api.Orphaned }, api.FoundNoOwner, api.Critical, "ringfence group describe g"},
		"orphaned, and nothing to do":  {func(g *api.Group) { *g = owned(0); g.Units[0].Phase = api.Orphaned }, "", "", ""},
		"paused":                       {func(g *api.Group) { g.Paused, g.PausedBy = true, "ann@host" }, api.FoundPaused, api.Warning, "ringfence group resume g"},
		"partly paused":                {func(g *api.Group) { g.Units[0].Paused, g.Units[0].Phase = true, api.Paused }, api.FoundPaused, api.Warning, "ringfence group resume g"},
		"damaged":                      {func(g *api.Group) { g.Units[0].Positions[0].Damaged = "torn" }, api.FoundDamage, api.Critical, "ringfence group seek g --to WHERE --partition 0"},
		"dropped":                      {func(g *api.Group) { g.Units[0].Positions[0].First, g.Units[0].Positions[0].Dropped = 9, 4 }, api.FoundDropped, api.Critical, "ringfence group seek g --to 9 --partition 0"},
		"other version":                {func(g *api.Group) { g.Members[0].Unreadable = true }, api.FoundMember, api.Warning, ""},
		"failing": {func(g *api.Group) {
			g.Failing = &api.FailingRecord{Offset: 5, Attempts: 9, Since: api.TimeOf(time.Now().Add(-time.Minute)), Why: "no card"}
			g.OldestMS = behindAfter.Milliseconds() // which that explains
		}, api.FoundFailing, api.Warning, "ringfence group describe g"},
		"failing since now": {func(g *api.Group) { g.Failing = &api.FailingRecord{Attempts: 1, Since: api.TimeOf(time.Now())} }, "", "", ""},
		"stands still": {func(g *api.Group) {
			g.OldestMS, g.Units[0].OldestMS = behindAfter.Milliseconds(), behindAfter.Milliseconds()
			g.Units[0].StoredAt = api.TimeOf(time.Now().Add(-behindAfter))
		}, api.FoundBehind, api.Warning, "ringfence group describe g"},
		"long behind": {func(g *api.Group) { g.OldestMS = behindAfter.Milliseconds() }, api.FoundBehind, api.Warning, "ringfence top g"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := owned(3)
			c.change(&g)
			s := survey{now: time.Now(), groups: []api.Group{g}}
			expect(t, s.findings(), "group", c.kind, c.severity, c.command)
		})
	}
}

func TestStatusFindsWhatIsWrongWithASubscription(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(*api.SubscriptionStatus)
		kind     string
		severity api.Severity
		command  string
	}{
		"nothing":             {func(*api.SubscriptionStatus) {}, "", "", ""},
		"never delivered":     {func(d *api.SubscriptionStatus) { d.Group, d.Endpoint = nil, &api.Endpoint{} }, api.FoundNoMember, api.Critical, "ringfence serve"},
		"no member":           {func(d *api.SubscriptionStatus) { d.Group.Members = nil }, api.FoundNoMember, api.Critical, "ringfence subscription run s --exec COMMAND"},
		"no member, parked":   {func(d *api.SubscriptionStatus) { d.Group.Members, d.Group.Lag, d.Parked.Records = nil, 0, 1 }, api.FoundNoMember, api.Critical, "ringfence subscription run s --exec COMMAND"},
		"unreadable":          {func(d *api.SubscriptionStatus) { d.Damaged = "torn" }, api.FoundUnreadable, api.Critical, "ringfence subscription describe s"},
		"problem":             {func(d *api.SubscriptionStatus) { d.Problems = []string{"journal: corrupt"} }, api.FoundProblem, api.Critical, "ringfence subscription describe s"},
		"paused by a user":    {func(d *api.SubscriptionStatus) { d.Paused = &api.Pause{By: "ann@host"} }, api.FoundPaused, api.Warning, "ringfence subscription resume s"},
		"paused by an answer": {func(d *api.SubscriptionStatus) { d.Paused = &api.Pause{By: subscription.ByEndpoint} }, api.FoundPaused, api.Critical, "ringfence subscription resume s"},
		"breaker": {func(d *api.SubscriptionStatus) {
			d.Breaker = &api.Breaker{State: "open", Open: []api.OpenBreaker{{Member: "m", HeldBack: api.HeldBack{Why: "503"}}}}
			d.Group.OldestMS = behindAfter.Milliseconds() // which the breaker explains
		}, api.FoundBreaker, api.Critical, "ringfence subscription retry s --all"},
		"dead letters": {func(d *api.SubscriptionStatus) { d.Dead.Records = 2 }, api.FoundDead, api.Warning, "ringfence subscription dead-letters list s"},
		"parked":       {func(d *api.SubscriptionStatus) { d.Parked.Records, d.Failing = 4, 1 }, api.FoundParked, api.Warning, "ringfence subscription retry s --all"},
		"delayed":      {func(d *api.SubscriptionStatus) { d.Parked.Records = 4 }, "", "", ""},
		"refused":      {func(d *api.SubscriptionStatus) { d.Limited = []api.MemberLimits{{Member: "m", Backoff: 2}} }, api.FoundSlow, api.Warning, "ringfence subscription describe s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := owned(3)
			d := &api.SubscriptionStatus{Subscription: api.Subscription{Name: "s", Topic: "t"}, Group: &g}
			c.change(d)
			s := survey{now: time.Now(), subs: []*api.SubscriptionStatus{d}}
			found := s.findings()
			if name == "no member, parked" {
				found = slices.DeleteFunc(found, func(f api.Finding) bool { return f.Kind == api.FoundParked })
			}
			expect(t, found, "subscription", c.kind, c.severity, c.command)
		})
	}
}

func TestStatusFindsWhatTheRegistryForgot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		check         api.TopicCheck
		kind, command string
	}{
		"nothing":    {api.TopicCheck{Topic: "t"}, "", ""},
		"difference": {api.TopicCheck{Topic: "t", Differences: []string{"storage topic 1"}}, api.FoundForgotten, "ringfence topic repair t"},
		"problem":    {api.TopicCheck{Topic: "t", Problem: "no card"}, api.FoundProblem, "ringfence topic check t"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := survey{now: time.Now(), checked: []*api.TopicCheck{&c.check}}
			expect(t, s.findings(), "topic", c.kind, api.Critical, c.command)
		})
	}
}

func expect(t *testing.T, found []api.Finding, what, kind string, severity api.Severity, command string) {
	t.Helper()
	if kind == "" {
		if len(found) > 0 {
			t.Errorf("found %+v; expected nothing", found)
		}
		return
	}
	if len(found) != 1 || found[0].What != what || found[0].Kind != kind || found[0].Severity != severity || found[0].Command != command || found[0].Cause == "" {
		t.Errorf("found %+v; expected one %s %s with %q", found, severity, kind, command)
	}
}

func TestStatusShowsTheWorstAndTheOldestFirst(t *testing.T) {
	t.Parallel()
	now := time.Now()
	of := func(name string, severity api.Severity, age time.Duration) api.Finding {
		f := api.Finding{Name: name, Severity: severity}
		if age > 0 {
			f.Since = api.TimeOf(now.Add(-age))
		}
		return f
	}
	s := survey{now: now, unfinished: []api.Finding{
		of("c", api.Warning, time.Hour), of("b", api.Critical, 0), of("d", api.Warning, time.Minute), of("a", api.Critical, time.Second),
	}}
	order := ""
	for _, f := range s.findings() {
		order += f.Name
	}
	if order != "abcd" {
		t.Errorf("the order is %s; expected abcd", order)
	}
}

func TestCheckJudgesByThresholds(t *testing.T) {
	t.Parallel()
	g := owned(5000)
	d := &api.SubscriptionStatus{Subscription: api.Subscription{Name: "s"}, Group: &api.Group{Lag: 7}}
	d.Dead.Records, d.Failing, d.Parked.OldestAt = 100, 1, api.TimeOf(time.Now().Add(-time.Hour))
	broken := &api.SubscriptionStatus{Subscription: api.Subscription{Name: "b"}, Problems: []string{"torn"}}
	never := &api.SubscriptionStatus{Subscription: api.Subscription{Name: "n", Sets: []api.ShardSet{{ID: "x", Shards: 2, State: "active"}}}} // delivered
	s := survey{now: time.Now(), groups: []api.Group{g}, subs: []*api.SubscriptionStatus{d, broken, never}}
	want := map[string]api.CheckState{
		"lag g": api.CheckWarning, "lag s": api.CheckOK, "lag b": api.CheckUnknown, "age g": api.CheckOK, "age s": api.CheckCritical,
		"dead-letters s": api.CheckCritical, "owners g": api.CheckOK, "owners s": api.CheckOK, "owners n": api.CheckCritical,
	}
	found := 0
	for _, m := range s.measures(checks) {
		if state, ok := want[m.Check+" "+m.Name]; ok {
			if found++; m.State != state {
				t.Errorf("%s of %s is %v, %s; expected %s", m.Check, m.Name, m.Value, m.State, state)
			}
		}
	}
	if found != len(want) {
		t.Errorf("%d measures; expected %d", found, len(want))
	}
}

func TestCheckCountsUnitsWithWorkAndWithoutAnOwner(t *testing.T) {
	t.Parallel()
	for _, phase := range []api.Phase{api.Orphaned, api.Unowned, api.Awaiting} {
		g := owned(3)
		g.Units[0].Phase = phase
		g.Units = append(g.Units, api.Unit{Unit: 1, Phase: phase})
		for _, c := range []struct {
			paused, parked bool
			want           int
		}{{false, false, 1}, {false, true, 2}, {true, true, 0}} {
			if n := ownerless(&g, c.paused, c.parked); n != c.want {
				t.Errorf("%s, paused %t, parked %t: %d; expected %d", phase, c.paused, c.parked, n, c.want)
			}
		}
	}
}

// What could not be looked at may be worse than a warning.
func TestCheckTellsTheWorstState(t *testing.T) {
	t.Parallel()
	order := []api.CheckState{api.CheckOK, api.CheckWarning, api.CheckUnknown, api.CheckCritical}
	for i, a := range order {
		for k, b := range order {
			if got := worse(a, b); got != order[max(i, k)] {
				t.Errorf("of %s and %s the worse is %s", a, b, got)
			}
		}
	}
	s := survey{groups: []api.Group{owned(0)}}
	if err := s.only([]string{"g", "none"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("a name that is none: %v; expected ErrNotFound", err)
	}
}

// What holds back every record of a key is told, what concerns others is not; and what can't be read is not told as done.
func TestWhyTellsWhatHoldsBackAKey(t *testing.T) {
	t.Parallel()
	var all []api.Finding
	for _, kind := range []string{
		api.FoundPaused, api.FoundDead, api.FoundBreaker, api.FoundParked, api.FoundNoMember, api.FoundBehind,
		api.FoundProblem, api.FoundMember, api.FoundSlow, api.FoundDropped, api.FoundNoOwner,
	} {
		all = append(all, api.Finding{Kind: kind})
	}
	for owner, want := range map[string]string{
		"": "paused breaker no-member problem dropped no-owner", "m": "paused breaker no-member problem dropped",
	} {
		var kinds []string
		for _, f := range holding(all, []api.KeyWait{{Records: 1, Owner: owner}}) {
			kinds = append(kinds, f.Kind)
		}
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("owner %q: held back by %q; expected %q", owner, got, want)
		}
	}
	if got := stateOf(&api.KeyAnswer{}, errors.New("torn")); got != api.KeyUnknown {
		t.Errorf("what can't be read is told as %s", got)
	}
}

func TestCheckMovesTheDefaultOfTheOtherThreshold(t *testing.T) {
	t.Parallel()
	n := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		o          CheckOptions
		warn, crit float64
	}{
		{CheckOptions{}, 1000, 10_000}, {CheckOptions{Warn: n(5)}, 5, 10_000}, {CheckOptions{Warn: n(20_000)}, 20_000, 20_000},
		{CheckOptions{Crit: n(5)}, 5, 5}, {CheckOptions{Warn: n(1), Crit: n(2)}, 1, 2},
	} {
		if warn, crit := thresholds(&checks[0], &c.o); warn != c.warn || crit != c.crit {
			t.Errorf("%v and %v; expected %v and %v", warn, crit, c.warn, c.crit)
		}
	}
}
