package e2e_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/internal/testlog"
)

// A topic stays, with force too, beside a group or subscription that a newer version wrote, and the error says to
// upgrade. Force passes over what is damaged, and the log says so.
func TestATopicIsNotDeletedFromUnderWhatANewerVersionWrote(t *testing.T) {
	t.Parallel()
	const (
		no    = iota // it is refused, with force too
		force        // with force it goes, and people are told
	)
	for name, c := range map[string]struct {
		key, value string
		other      string // another topic that is to go; "": orders
		how        int
		says       string
	}{
		"a subscription that nobody has delivered yet": {"subscriptions/mailing", `{"format":99,"name":"mailing","topic":"orders"}`, "", no, `subscription "mailing"`},
		"one of several topics":                        {"subscriptions/mailing", `{"format":99,"name":"mailing","from":{"topics":["mails","orders"]}}`, "", no, `subscription "mailing"`},
		"one that is called as the topic":              {"subscriptions/orders", `{"format":99,"name":"orders","topic":"mails"}`, "", no, `subscription "orders"`},
		"one that says nothing of topics":              {"subscriptions/mailing", `{"format":99,"name":"mailing"}`, "", no, `subscription "mailing"`},
		"a group":                                      {"groups/g/meta", `{"format":99,"topic":"orders","life":"a","units":1}`, "", no, `group "g"`},
		"a group of other types":                       {"groups/g/meta", `{"format":99,"topic":["orders"],"life":7}`, "", no, `group "g"`},
		"a group of another topic":                     {"groups/g/meta", `{"format":99,"topic":"mails"}`, "", no, `group "g"`},
		"a damaged group":                              {"groups/g/meta", `{"format":`, "", force, `group "g"`},
		"a damaged subscription":                       {"subscriptions/mailing", `{"format":`, "", force, `subscription "mailing"`},
		"what a subscription has parked":               {"subscriptions/billing", `{"format":99,"name":"billing"}`, "journal", no, `subscription "billing"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := newTopic(t, 1)
			var said testlog.Buffer
			rf := s.openAs(t, process{logger: said.Logger()})
			ctx := t.Context()
			topic := "orders"
			if c.other != "" {
				info, err := rf.Admin().CreateSubscription(ctx, "billing", admin.SubscriptionConfig{Topic: "orders"})
				must(t, err)
				topic = info.Set().Journal
			}
			forge(t, s, c.key, c.value)
			newer := strings.Contains(c.value, "99")
			for _, o := range []admin.DeleteTopicOptions{{DryRun: true}, {}, {Force: true, DryRun: true}, {Force: true}} {
				err := rf.Admin().DeleteTopic(ctx, topic, &o)
				if o.Force && c.how == force {
					if err != nil {
						t.Errorf("%+v: %v", o, err)
					}
					continue
				}
				if !errors.Is(err, ringfence.ErrConflict) || !strings.Contains(err.Error(), c.says) || newer && (!strings.Contains(err.Error(), "upgrade") || strings.Contains(err.Error(), "orce")) {
					t.Errorf("%+v: %v; expected ErrConflict that names %s, and of a newer version to upgrade, and nothing of force", o, err, c.says)
				}
				if _, err := rf.Admin().DescribeTopic(ctx, topic); err != nil {
					t.Fatalf("%+v: the topic: %v", o, err)
				}
			}
			_, err := rf.Admin().DescribeTopic(ctx, topic)
			if gone := errors.Is(err, ringfence.ErrNotFound); gone != (c.how == force) {
				t.Errorf("the topic: %v", err)
			}
			if text := said.String(); c.how == force && !strings.Contains(text, strings.Fields(c.says)[0]+"="+strings.Trim(strings.Fields(c.says)[1], `"`)) {
				t.Errorf("people were told %q; expected what was passed over", text)
			}
		})
	}
}

// Force removes a damaged group or subscription, and the log names it. What a newer version wrote stays.
func TestForceRemovesWhatIsDamagedAndNotWhatIsNewer(t *testing.T) {
	t.Parallel()
	const newer, damaged = `{"format":99,"life":7,"topic":["orders"]}`, `{"format":`
	for name, meta := range map[string]string{"newer": newer, "damaged": damaged} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := parked(t)
			var said testlog.Buffer
			rf := s.openAs(t, process{logger: said.Logger()})
			ctx := t.Context()
			info, err := rf.Admin().GetSubscription(ctx, "billing")
			must(t, err)
			forge(t, s, "groups/g/meta", meta)
			if err := rf.Admin().DeleteGroup(ctx, "g", nil); err == nil || name == "newer" && (!strings.Contains(err.Error(), "upgrade") || strings.Contains(err.Error(), "orce")) {
				t.Errorf("without force: %v", err)
			}
			err = rf.Admin().DeleteGroup(ctx, "g", &admin.DeleteGroupOptions{Force: true})
			if meta == newer {
				if err == nil || !strings.Contains(err.Error(), "upgrade") {
					t.Errorf("with force: %v; expected that a newer version wrote the group", err)
				}
				forge(t, s, "subscriptions/billing", meta)
				err = rf.Admin().DeleteSubscription(ctx, "billing", &admin.DeleteSubscriptionOptions{Force: true})
				if err == nil || !strings.Contains(err.Error(), "upgrade") {
					t.Errorf("with force: %v; expected that a newer version wrote the subscription", err)
				}
				return
			}
			must(t, err)
			if !strings.Contains(said.String(), "group=g ") {
				t.Errorf("people were told %q; expected which group went", said.String())
			}
			forge(t, s, "subscriptions/billing", meta)
			forge(t, s, "groups/"+info.Group()+"/meta", meta)
			if err := rf.Admin().DeleteSubscription(ctx, "billing", &admin.DeleteSubscriptionOptions{Force: true}); err != nil {
				t.Errorf("with force: %v", err)
			}
			if !strings.Contains(said.String(), "subscription=billing") {
				t.Errorf("people were told %q; expected which subscription went", said.String())
			}
			groups, err := rf.Admin().ListGroups(ctx)
			topics, err2 := rf.Admin().ListTopics(ctx)
			if err := errors.Join(err, err2); err != nil || len(groups) != 0 || len(topics) != 1 {
				t.Errorf("left are groups %+v and topics %+v, %v; expected the topic orders alone", groups, topics, err)
			}
		})
	}
}

// The deletion of a subscription whose topic or group a newer version wrote does not begin, with force too: it could not
// be finished.
func TestASubscriptionOfANewerTopicOrGroupIsNotHalfDeleted(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"topic", "group"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			s, _ := parked(t)
			rf := s.open(t)
			ctx := t.Context()
			info, err := rf.Admin().GetSubscription(ctx, "billing")
			must(t, err)
			key := "topics/orders"
			if of == "group" {
				key = "groups/" + info.Group() + "/meta"
			}
			forge(t, s, key, `{"format":99}`)
			for _, force := range []bool{false, true} {
				err := rf.Admin().DeleteSubscription(ctx, "billing", &admin.DeleteSubscriptionOptions{Force: force})
				if err == nil || !strings.Contains(err.Error(), "upgrade") {
					t.Errorf("force %t: %v; expected that a newer version wrote its %s", force, err, of)
				}
			}
			if _, err := rf.Admin().GetSubscription(ctx, "billing"); err != nil {
				t.Errorf("the subscription: %v; expected that it is there as it was", err)
			}
		})
	}
}

// A dry run takes nothing, of what force would take too.
func TestADryRunOfADeletionTakesNoGroup(t *testing.T) {
	t.Parallel()
	_, rf := newTopic(t, 1)
	produce(t, rf, "orders", 0, 10, 5)
	consumeAll(t, rf, 10)
	ctx := t.Context()
	if err := rf.Admin().DeleteTopic(ctx, "orders", &admin.DeleteTopicOptions{DryRun: true}); !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("without force: %v; expected ErrConflict", err)
	}
	must(t, rf.Admin().DeleteTopic(ctx, "orders", &admin.DeleteTopicOptions{Force: true, DryRun: true}))
	g, err := rf.Admin().DescribeGroup(ctx, "ledger")
	must(t, err)
	if g.Units[0].Positions[0].Checkpoint != 10 {
		t.Errorf("the group is at %+v; expected its progress as it was", g.Units)
	}
}
