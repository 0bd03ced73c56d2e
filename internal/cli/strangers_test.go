package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/fileregistry"
)

// subscriptionOf makes a topic with a subscription in a directory, and returns the ID of its set.
func subscriptionOf(t *testing.T, data string) (set string) {
	t.Helper()
	for _, line := range []string{"topic create orders --partitions 1", "topic create mails --partitions 1", "subscription create mailing --topic mails", "subscription create billing --topic orders"} {
		if code, _, stderr := runLine(t, append(strings.Fields(line), "--data", data)...); code != 0 {
			t.Fatal(stderr)
		}
	}
	entry := stored(t, data, "subscriptions/billing", nil)
	var d struct{ Sets []struct{ ID string } }
	if err := json.Unmarshal([]byte(entry), &d); err != nil {
		t.Fatal(err)
	}
	return d.Sets[0].ID
}

// stored is an entry of a directory's registry; with a value it is that from then on.
func stored(t *testing.T, data, key string, value *string) string {
	t.Helper()
	reg, err := fileregistry.Open(t.Context(), fileregistry.Config{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reg.Close() }()
	e, _ := reg.Get(t.Context(), key) // it may not be there
	if value == nil {
		return string(e.Value)
	}
	if _, err := reg.Txn(t.Context(), registry.Txn{
		Checks: []registry.Check{{Key: key, Version: e.Version}}, Puts: []registry.Put{{Key: key, Value: []byte(*value)}},
	}); err != nil {
		t.Fatal(err)
	}
	return *value
}

// Whatever a stranger wrote is named, and the rest is shown.
func TestDescribeSubscriptionShowsAllThatCanBeRead(t *testing.T) {
	t.Parallel()
	const shown = "subscription billing of topic"
	type look struct {
		line   string
		code   int
		stdout string // has to be there
		stderr string
	}
	for name, c := range map[string]struct {
		key   func(set string) string
		value func(was, set string) string
		looks []look
	}{
		"a definition": {
			func(string) string { return "subscriptions/billing" },
			func(was, _ string) string { return strings.Replace(was, `"shards":1`, `"shards":0`, 1) },
			[]look{
				{"subscription list", 0, "can't be read: registry key", ""},
				{"subscription describe billing", 1, "", `"subscriptions/billing"`},
				{"subscription dead-letters list billing", 1, "", "--force"},
				{"subscription why billing k", 1, "", "--force"},
			},
		},
		"its topic": {
			func(string) string { return "subscriptions/billing" },
			func(was, set string) string {
				return strings.Replace(was, `"topic":"orders"`, `"topic":"billing.`+set+`.dead"`, 1)
			},
			[]look{
				{"subscription list", 0, "billing", ""},
				{"subscription describe billing", 4, shown, "only topics of users"},
				{"subscription describe billing --format json", 4, `"problems"`, "only topics of users"},
				{"subscription dead-letters list billing", 0, "ID", ""},
				{"subscription why billing k", 4, "key k of subscription billing: ", "only topics of users"},
				{"subscription run billing --exec true", 4, "", "only topics of users"},
			},
		},
		"an internal topic": {
			func(set string) string { return "topics/billing." + set + ".retry" },
			func(was, _ string) string { return strings.Replace(was, `subscription \"billing\"`, "", 1) },
			[]look{
				{"subscription list", 0, "billing", ""},
				{"subscription describe billing", 4, shown, "no part of subscription"},
				{"subscription dead-letters list billing", 4, "", "no part of subscription"},
				{"subscription why billing k", 4, "", "no part of subscription"},
			},
		},
		"its group": {
			func(set string) string { return "groups/billing.." + set + "/meta" },
			func(string, string) string { return `{"units":-1}` },
			[]look{
				{"subscription list", 0, "billing", ""},
				{"subscription describe billing", 1, shown, "groups/billing.."},
				{"subscription dead-letters list billing", 0, "ID", ""},
				{"subscription why billing k", 1, "key k of subscription billing: ", "groups/billing.."},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			set := subscriptionOf(t, data)
			key := c.key(set)
			was := stored(t, data, key, nil)
			now := c.value(was, set)
			if now == was {
				t.Fatalf("%s stays %s", key, was)
			}
			stored(t, data, key, &now)
			for _, l := range c.looks {
				code, stdout, stderr := runLine(t, append(strings.Fields(l.line), "--data", data)...)
				if code != l.code || !strings.Contains(stdout, l.stdout) || !strings.Contains(stderr, l.stderr) {
					t.Errorf("%s: exit code %d, %q, %q; expected %d, %q, %q", l.line, code, stdout, stderr, l.code, l.stdout, l.stderr)
				}
			}
			if code, stdout, stderr := runLine(t, "subscription", "describe", "mailing", "--data", data); code != 0 || !strings.Contains(stdout, "mails") {
				t.Errorf("another one: exit code %d, %q, %q", code, stdout, stderr)
			}
		})
	}
}

// A newer version delivers the topic: no message says to delete it all the same.
func TestTopicDeleteRefusesATopicOfANewerVersion(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	set := subscriptionOf(t, data)
	now := `{"format":99,"name":"billing","topic":["orders"]}`
	stored(t, data, "subscriptions/billing", &now)
	for _, group := range []string{"", `{"format":1,"life":"x","units":1,"topic":"orders"}`} {
		if group != "" {
			stored(t, data, "groups/billing.."+set+"/meta", &group)
		}
		for _, line := range []string{"topic delete orders --dry-run", "topic delete orders --force --dry-run", "topic delete orders --yes", "topic delete orders --yes --force"} {
			code, _, stderr := runLine(t, append(strings.Fields(line), "--data", data)...)
			if code != 4 || !strings.Contains(stderr, "upgrade") || strings.Contains(stderr, "--force") {
				t.Errorf("%s, with the group %q: exit code %d, %q; expected 4, and only that it says to upgrade", line, group, code, stderr)
			}
		}
	}
}
