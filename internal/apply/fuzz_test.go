package apply

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
)

// What a file is accepted for can be made: each object is valid, its name stands there once, and its fields
// are read again as they are shown. What is refused names the file.
func FuzzDecode(f *testing.F) {
	f.Add(shop)
	f.Add("topics: {a: {retention-age: 1h, retention-force: true, life: k3m9q2xt, hash: murmur2, router: modulo}}\n---\ntopics: {b: }")
	f.Add("subscriptions: {s: {topic: t, hold: -1s, order: none, from: latest, dead-letters: drop, retry-max: 2s}}")
	f.Add("a: &a [1, 2]\nb: *a\n<<: *a")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Decode("f.yaml", []byte(text))
		if err != nil {
			if !errors.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), "f.yaml:") {
				t.Fatalf("a refusal of no kind, or without a place: %v", err)
			}
			return
		}
		names := map[string]bool{}
		accepted(t, names, "topic ", file.Topics, topicFields())
		accepted(t, names, "subscription ", file.Subscriptions, subscriptionFields())
	})
}

func accepted[C interface{ Validate(string) error }](t *testing.T, names map[string]bool, kind string, objects []*Object[C], fields []field[C]) {
	t.Helper()
	for _, o := range objects {
		if err := o.Config.Validate(o.Name); err != nil {
			t.Fatalf("accepted, and not valid: %v", err)
		}
		if names[kind+o.Name] {
			t.Fatalf("%s%q was accepted twice", kind, o.Name)
		}
		names[kind+o.Name] = true
		for _, f := range fields {
			var again C
			shown := f.show(&o.Config)
			if _, named := o.named[f.name]; named && shown != "not at all" && (!f.read(&again, shown) || f.show(&again) != shown) {
				t.Fatalf("%s is shown as %q, and not read as that", f.name, shown)
			}
		}
	}
}
