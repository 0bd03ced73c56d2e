package apply

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *ringfence.Client {
	t.Helper()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rf.Close() })
	return rf
}

func decode(t *testing.T, text string) *File {
	t.Helper()
	f, err := Decode("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func plan(t *testing.T, s Store, text string) *Plan {
	t.Helper()
	p, err := Make(t.Context(), s, decode(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// actions is what a plan does, in its order.
func actions(p *Plan) string {
	var all []string
	for _, c := range p.Changes {
		all = append(all, string(c.Action)+" "+c.Name)
	}
	return strings.Join(all, ", ")
}

const shop = `
topics:
  payments: {partitions: 2, retention-age: 1h}
  clicks: {partitions: 1}
subscriptions:
  billing: {topic: payments, attempts: 3}
`

// cut is a store whose writes fail after some.
type cut struct {
	Store
	left int
}

var errCut = errors.New("cut off")

func (c *cut) CreateTopic(ctx context.Context, name string, cfg admin.TopicConfig, opts *admin.CreateTopicOptions) error {
	if c.left--; c.left < 0 {
		return errCut
	}
	return c.Store.CreateTopic(ctx, name, cfg, opts)
}

func (c *cut) CreateSubscription(ctx context.Context, name string, cfg admin.SubscriptionConfig) (*api.Subscription, error) {
	if c.left--; c.left < 0 {
		return nil, errCut
	}
	return c.Store.CreateSubscription(ctx, name, cfg)
}

func TestARunThatWasCutOffIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	for left := range 3 {
		rf := open(t)
		p := plan(t, &cut{rf.Admin(), left}, shop)
		if err := p.Apply(t.Context()); !errors.Is(err, errCut) {
			t.Fatalf("cut off after %d: %v", left, err)
		}
		for i, c := range p.Changes {
			if c.Done != (i < left) {
				t.Errorf("cut off after %d: change %d says done: %t", left, i, c.Done)
			}
		}
		if err := plan(t, rf.Admin(), shop).Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := actions(plan(t, rf.Admin(), shop)); got != "unchanged payments, unchanged clicks, unchanged billing" {
			t.Errorf("cut off after %d and repeated: %s", left, got)
		}
	}
}

func TestAPlanDoesNotOverwriteWhatChangedSinceItWasMade(t *testing.T) {
	t.Parallel()
	rf := open(t)
	if err := plan(t, rf.Admin(), shop).Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	stale := plan(t, rf.Admin(), "topics: {payments: {retention-age: 2h}}")
	if err := plan(t, rf.Admin(), "topics: {payments: {retention-age: 3h}}").Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := stale.Apply(t.Context()); !errors.Is(err, fault.Conflict) || fault.ExitCode(err) != fault.ExitConflict {
		t.Errorf("a plan from before another change: %v", err)
	}
	if got := actions(plan(t, rf.Admin(), "topics: {payments: {retention-age: 3h}}")); got != "unchanged payments" {
		t.Errorf("the newer change is gone: %s", got)
	}
}

func TestATopicOfTheNameThatIsAnotherByNowIsNotChanged(t *testing.T) {
	t.Parallel()
	rf := open(t)
	if err := plan(t, rf.Admin(), shop).Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	stale := plan(t, rf.Admin(), "topics: {clicks: {retention-age: 2h}}")
	if err := rf.Admin().DeleteTopic(t.Context(), "clicks", nil); err != nil {
		t.Fatal(err)
	}
	if err := rf.EnsureTopic(t.Context(), "clicks", ringfence.TopicConfig{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	if err := stale.Apply(t.Context()); !errors.Is(err, fault.Conflict) {
		t.Errorf("another topic of the name was changed: %v", err)
	}
}

// Two that create the same in another way: one of them hears of it.
func TestOfTwoThatCreateTheSameOneHearsOfTheConflict(t *testing.T) {
	t.Parallel()
	for _, second := range []string{
		"topics: {payments: {partitions: 2, retention-age: 2h}}",
		"topics: {payments: {partitions: 3}}",
		"topics: {payments: {partitions: 2}}\nsubscriptions: {billing: {topic: payments, attempts: 4}}",
	} {
		rf := open(t)
		late := plan(t, rf.Admin(), second)
		if err := plan(t, rf.Admin(), shop).Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := late.Apply(t.Context()); fault.ExitCode(err) != fault.ExitConflict {
			t.Errorf("%s: created by another process meanwhile in another way: %v", second, err)
		}
	}
}

func TestOfTwoThatCreateTheSameAlikeBothAreDone(t *testing.T) {
	t.Parallel()
	rf := open(t)
	late := plan(t, rf.Admin(), shop)
	if err := plan(t, rf.Admin(), shop).Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := late.Apply(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAFileThatNamesEverySettingIsUnchangedTheSecondTime(t *testing.T) {
	t.Parallel()
	rf := open(t)
	const all = "topics: {payments: {partitions: 4}}\n" + `
subscriptions:
  billing:
    topic: payments
    order: none
    from: latest
    shards: 2
    attempts: 3
    retry-initial: 20ms
    retry-max: 4s
    retry-after-max: 5s
    hold: 30ms
    dead-letters: drop
    filter: value.n > 1
    rate: 100
    concurrency: 8
    endpoint: http://127.0.0.1:1/in
    timeout: 3s
    secret-file: /nonexistent/secret
    cloudevents: true
    give-up-first: true
`
	for _, f := range subscriptionFields() {
		if !strings.Contains(all, "    "+f.name+": ") {
			t.Errorf("this test doesn't name the setting %s", f.name)
		}
	}
	if err := plan(t, rf.Admin(), all).Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := actions(plan(t, rf.Admin(), all)); got != "unchanged payments, unchanged billing" {
		t.Errorf("the second time the file does: %s", got)
	}
}

func TestTheLimitsOfASubscriptionAreChangedInPlace(t *testing.T) {
	t.Parallel()
	rf := open(t)
	file := func(limits string) string {
		return "topics: {payments: {partitions: 4}}\nsubscriptions: {billing: {topic: payments" + limits + "}}"
	}
	if err := plan(t, rf.Admin(), file("")).Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		limits, change string
		now            api.Limits
	}{
		{", rate: 100", "rate: no bound -> 100", api.Limits{Rate: 100}},
		{", concurrency: 8", "concurrency: no bound -> 8", api.Limits{Rate: 100, Concurrency: 8}},
		{", rate: 50, concurrency: 4", "rate: 100 -> 50 concurrency: 8 -> 4", api.Limits{Rate: 50, Concurrency: 4}},
		{", rate: 0", "rate: 50 -> no bound", api.Limits{Concurrency: 4}},
		{", rate: 0, concurrency: 4", "", api.Limits{Concurrency: 4}},
		{"", "", api.Limits{Concurrency: 4}},
	} {
		p := plan(t, rf.Admin(), file(step.limits))
		var change []string
		for _, f := range p.Changes[1].Fields {
			change = append(change, f.Field+": "+f.From+" -> "+f.To)
		}
		if got := strings.Join(change, " "); got != step.change {
			t.Errorf("%q would change %q, expected %q", step.limits, got, step.change)
		}
		if err := p.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		all, err := rf.Admin().ListSubscriptions(t.Context())
		if err != nil || len(all) != 1 || all[0].Limits == nil {
			t.Fatalf("%v, %v; expected one with limits", all, err)
		}
		if got := *all[0].Limits; got != step.now {
			t.Errorf("after %q the limits are %+v, expected %+v", step.limits, got, step.now)
		}
	}
	_, err := Make(t.Context(), rf.Admin(), decode(t, file(", concurrency: 3")))
	if fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), "f.yaml:2") || !strings.Contains(err.Error(), "reshard billing --shards 3") {
		t.Errorf("3 at once for 4 shards: %v", err)
	}
	stale := plan(t, rf.Admin(), file(", rate: 7"))
	if err := plan(t, rf.Admin(), file(", rate: 8")).Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := stale.Apply(t.Context()); !errors.Is(err, fault.Conflict) {
		t.Errorf("a plan from before another change: %v", err)
	}
	stale = plan(t, rf.Admin(), file(", rate: 9"))
	if err := rf.Admin().DeleteSubscription(t.Context(), "billing", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "payments", Rate: 8, Concurrency: 4}); err != nil {
		t.Fatal(err)
	}
	if err := stale.Apply(t.Context()); !errors.Is(err, fault.Conflict) {
		t.Errorf("another subscription of the name was changed: %v", err)
	}
}

func TestFaultsOfAFileAreToldWithTheirLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"topics: {a: {partitions: 0}}":                             `f.yaml:1: topic "a": partitions: found "0"; expected a number from 1 on`,
		"topics: {a: {partitions: 99999999999999999999}}":          "expected a number from 1 on",
		"topics: {a: {partitions: }}":                              "partitions: found nothing",
		"topics: {a: {partitions: [1]}}":                           "partitions: found a list",
		"topics: {a: {partitions: 1000000}}":                       "1000000 partitions; expected 1 to",
		"topics: {a: {retention-age: -1s}}":                        "expected a time in whole milliseconds",
		"topics: {a: {retention-age: 1us}}":                        "expected a time in whole milliseconds",
		"topics: {a: {retention-force: yes}}":                      `found "yes"; expected true or false`,
		"topics: {a: {router: range, hash: murmur2}}":              "router range needs a hash of 64 bits",
		"topics: {a..b: {}}":                                       "f.yaml:1: topic name",
		"topics: [a]":                                              "found a list; expected a mapping of topics by name",
		"topics: {~: {}}":                                          "as a key",
		"topic: {a: {}}":                                           `unknown field "topic"; expected "topics" and "subscriptions"`,
		"topics: {a: {<<: {partitions: 3}}}":                       `unknown field "<<"`,
		"subscriptions: {s: {}}":                                   `subscription "s": "topic" is missing`,
		"subscriptions: {s: {topic: t, cloudevents: true}}":        `cloudevents: it is of an endpoint; expected "endpoint"`,
		"subscriptions: {s: {topic: t, attempts: 0}}":              "attempts: found \"0\"",
		"subscriptions: {s: {topic: t, hold: 0.5ms}}":              "hold: found \"0.5ms\"",
		"subscriptions: {s: {topic: t, retry-max: 1ms, hold: 1s}}": "a longest one that is not shorter",
		"topics:\n  a: {}\n---\n---\ntopics:\n  a: {}":             `f.yaml:6: topic "a" stands there twice, first in line 2`,
		"- topics":  "found a list; expected a mapping",
		"":          "nothing is in it",
		"topics: {": "no valid YAML",
	} {
		_, err := Decode("f.yaml", []byte(text))
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v; expected %q", text, err, want)
		}
	}
}

func TestManyFaultsAreCounted(t *testing.T) {
	t.Parallel()
	_, err := Decode("f.yaml", []byte("topics:\n"+strings.Repeat("  a:\n    b: c\n", 30)))
	if err == nil || !strings.HasSuffix(err.Error(), "f.yaml: and 10 more: invalid argument") {
		t.Errorf("got %v", err)
	}
}

func TestATopicOfASubscriptionIsNotDelivered(t *testing.T) {
	t.Parallel()
	rf := open(t)
	topics := topic.NewCatalog(rf.Log(), rf.Registry(), rf.Namespace())
	if _, err := topics.Ensure(t.Context(), "a.abcdefg2.dead", topic.Config{Partitions: 1, Internal: `subscription "a"`}); err != nil {
		t.Fatal(err)
	}
	_, err := Make(t.Context(), rf.Admin(), decode(t, "subscriptions: {b: {topic: a.abcdefg2.dead}}"))
	if fault.ExitCode(err) != fault.ExitConflict || !strings.Contains(err.Error(), `f.yaml:1: subscription "b": topic "a.abcdefg2.dead" is a part of subscription "a"`) {
		t.Errorf("%v; expected a conflict, and whose the topic is", err)
	}
}

// The message that asks for an ID names that of a topic which was moved as well.
func TestTopicIDIncludesThatOfAMovedTopic(t *testing.T) {
	t.Parallel()
	for id := range 12 {
		life := "k3m9q2xt"
		for range id {
			life = topic.NextLife(life)
		}
		if !TopicID.MatchString(life) {
			t.Errorf("%q is no ID of a topic; expected that it is", life)
		}
	}
}
