package assign_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/internal/fault"
)

func add(t rapid.TB, a *assign.Anchor, member string) *assign.Anchor {
	t.Helper()
	b, err := a.Add(member)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func anchorOf(t rapid.TB, n int) *assign.Anchor {
	a := new(assign.Anchor)
	for i := range n {
		a = add(t, a, fmt.Sprintf("member-%03d", i))
	}
	return a
}

func someKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	return keys
}

func owners(a *assign.Anchor, keys []string) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = a.Owner(k)
	}
	return out
}

func TestAnEmptyAnchorOwnsNothing(t *testing.T) {
	t.Parallel()
	var a assign.Anchor
	if got := a.Owner("k"); got != "" || a.Len() != 0 || len(a.Members()) != 0 {
		t.Errorf("an empty anchor: owner %q, %d members", got, a.Len())
	}
	b := add(t, &a, "m").Remove("m")
	if got := b.Owner("k"); got != "" || b.Len() != 0 {
		t.Errorf("an anchor that was emptied: owner %q, %d members", got, b.Len())
	}
	if got := add(t, b, "n").Owner("k"); got != "n" {
		t.Errorf("with one member again: owner %q", got)
	}
}

// Any sequence of joins and leaves: only keys of the one that changed move, an anchor read from
// its document maps the same, and a leave followed by a join leaves all else as it was.
func TestAChangeMovesOnlyKeysOfTheMemberThatChanged(t *testing.T) {
	t.Parallel()
	keys := someKeys(400)
	rapid.Check(t, func(t *rapid.T) {
		a := new(assign.Anchor)
		before := owners(a, keys)
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			m := fmt.Sprintf("m%d", rapid.IntRange(0, 20).Draw(t, "member"))
			joins := rapid.IntRange(0, 2).Draw(t, "joins") > 0
			if joins {
				a = add(t, a, m)
			} else {
				a = a.Remove(m)
			}
			after := owners(a, keys)
			for i, k := range keys {
				switch {
				case before[i] == after[i]:
				case joins && after[i] == m, !joins && before[i] == m:
				default:
					t.Fatalf("%s joins=%t: key %s moved from %q to %q", m, joins, k, before[i], after[i])
				}
			}
			if !slices.Equal(owners(stored(t, a), keys), after) {
				t.Fatal("the anchor read from its document maps keys elsewhere")
			}
			for i := range keys {
				if (after[i] == "") != (a.Len() == 0) || after[i] != "" && !slices.Contains(a.Members(), after[i]) {
					t.Fatalf("key %s belongs to %q, members are %v", keys[i], after[i], a.Members())
				}
			}
			before = after
		}
	})
}

func stored(t rapid.TB, a *assign.Anchor) *assign.Anchor {
	t.Helper()
	doc, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	b := new(assign.Anchor)
	if err := json.Unmarshal(doc, b); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return b
}

// The mapping is part of the stored format: it must never change for documents that exist.
func TestTheMappingOfTheStoredFormatNeverChanges(t *testing.T) {
	t.Parallel()
	a := add(t, anchorOf(t, 11).Remove("member-003").Remove("member-010").Remove("member-001"), "late")
	const doc = `{"format":1,"buckets":["member-000","late","member-002","","member-004","member-005","member-006","member-007","member-008","member-009",""],"removed":[3,10]}`
	if got, err := json.Marshal(a); err != nil || string(got) != doc {
		t.Fatalf("document %s %v", got, err)
	}
	for key, want := range map[string]string{
		"": "member-000", "user-123": "member-007", "acct-42": "member-004", "a": "member-002", "Ωmega": "member-000",
	} {
		if got := a.Owner(key); got != want {
			t.Errorf("owner of %q: %s; want %s", key, got, want)
		}
	}
}

func TestKeysAreSpreadEvenlyWhateverTheHistory(t *testing.T) {
	t.Parallel()
	keys := someKeys(100_000)
	shrunk := anchorOf(t, 60)
	for i := range 47 {
		shrunk = shrunk.Remove(fmt.Sprintf("member-%03d", i*13%60))
	}
	for name, a := range map[string]*assign.Anchor{
		"2": anchorOf(t, 2), "3": anchorOf(t, 3), "10": anchorOf(t, 10), "64": anchorOf(t, 64), "65": anchorOf(t, 65),
		"60 of which 13 stayed": shrunk, "and 4 came back": add(t, add(t, add(t, add(t, shrunk, "a"), "b"), "c"), "d"),
	} {
		count := map[string]int{}
		for _, k := range keys {
			count[a.Owner(k)]++
		}
		mean := float64(len(keys)) / float64(a.Len())
		chi := 0.0
		for _, m := range a.Members() {
			d := float64(count[m]) - mean
			chi += d * d / mean
		}
		// Chi-squared with n-1 degrees of freedom: mean n-1, deviation √(2(n-1)); five of them.
		if free := float64(a.Len() - 1); chi > free+5*math.Sqrt(2*free) {
			t.Errorf("%s members: chi-squared %.1f for %.0f degrees of freedom: %v", name, chi, free, count)
		}
	}
}

// Keys of a member that leaves must go to all others, not to a neighbour.
func TestTheHeirsOfAMemberShareItsKeysEvenly(t *testing.T) {
	t.Parallel()
	keys := someKeys(200_000)
	a := anchorOf(t, 20).Remove("member-004").Remove("member-017")
	b := a.Remove("member-009")
	heirs := map[string]int{}
	total := 0
	for _, k := range keys {
		if a.Owner(k) == "member-009" {
			heirs[b.Owner(k)]++
			total++
		}
	}
	mean := float64(total) / float64(b.Len())
	for _, m := range b.Members() {
		if d := math.Abs(float64(heirs[m]) - mean); d > 5*math.Sqrt(mean) {
			t.Errorf("%s got %d of %d keys; expected about %.0f", m, heirs[m], total, mean)
		}
	}
}

// The promised figure: one of N leaves or joins, and at most 1.1/N of a million keys move.
func TestJoinAndLeaveMoveTheirShareOfAMillionKeys(t *testing.T) {
	t.Parallel()
	keys := someKeys(1_000_000)
	for _, n := range []int{10, 50, 100} {
		a := anchorOf(t, n)
		without := a.Remove(fmt.Sprintf("member-%03d", n/3))
		more := add(t, a, "newcomer")
		left, joined := 0, 0
		for _, k := range keys {
			was := a.Owner(k)
			if was != without.Owner(k) {
				left++
			}
			if was != more.Owner(k) {
				joined++
			}
		}
		if most := int(1.1 / float64(n) * float64(len(keys))); left > most || joined > most {
			t.Errorf("%d members: %d keys move when one leaves, %d when one joins; at most %d are allowed", n, left, joined, most)
		}
	}
}

func TestAnchorRefusesDocumentsThatNoHistoryLeadsTo(t *testing.T) {
	t.Parallel()
	for doc, kind := range map[string]error{
		`{"format":2,"buckets":["a"],"removed":[]}`:          fault.Invalid,
		`{"buckets":["a"],"removed":[]}`:                     fault.Invalid,
		`{"format":1,"buckets":["a","a"],"removed":[]}`:      fault.Corrupt,
		`{"format":1,"buckets":["a",""],"removed":[]}`:       fault.Corrupt,
		`{"format":1,"buckets":["a","b"],"removed":[1]}`:     fault.Corrupt,
		`{"format":1,"buckets":["a",""],"removed":[1,1]}`:    fault.Corrupt,
		`{"format":1,"buckets":["a",""],"removed":[1,2]}`:    fault.Corrupt,
		`{"format":1,"buckets":["a",""],"removed":[-1]}`:     fault.Corrupt,
		`{"format":1,"buckets":{"a":0},"removed":["first"]}`: fault.Corrupt,
	} {
		if err := json.Unmarshal([]byte(doc), new(assign.Anchor)); !errors.Is(err, kind) {
			t.Errorf("%s: got %v; want %v", doc, err, kind)
		}
	}
	if _, err := new(assign.Anchor).Add(""); !errors.Is(err, fault.Invalid) {
		t.Errorf("a member without a name: %v", err)
	}
}

func FuzzAnchorDocument(f *testing.F) {
	f.Add([]byte(`{"format":1,"buckets":["a","","c"],"removed":[1]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		a := new(assign.Anchor)
		if json.Unmarshal(doc, a) != nil {
			return
		}
		if got := a.Owner("key"); (got == "") != (a.Len() == 0) {
			t.Errorf("owner %q of %d members", got, a.Len())
		}
		if b := a.Remove("a"); slices.Contains(b.Members(), "a") {
			t.Error("a was removed and is still there")
		}
	})
}

func TestAnchorLookupAllocatesNothing(t *testing.T) {
	a := anchorOf(t, 100)
	keys := someKeys(64)
	i := 0
	if n := testing.AllocsPerRun(1000, func() { _ = a.Owner(keys[i%len(keys)]); i++ }); n != 0 {
		t.Errorf("%.0f allocations a lookup; want none", n)
	}
}

func BenchmarkAnchorOwner(b *testing.B) {
	shrunk := anchorOf(b, 200)
	for i := range 100 {
		shrunk = shrunk.Remove(fmt.Sprintf("member-%03d", 2*i))
	}
	keys := someKeys(1024)
	for name, a := range map[string]*assign.Anchor{"100 members": anchorOf(b, 100), "100 of 200 stayed": shrunk} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				_ = a.Owner(keys[i&1023])
				i++
			}
		})
	}
}
