package registrytest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/registry"
)

func putIsRead(s *suite) {
	a, b := s.open(), s.open()
	for i := range 20 {
		want := fmt.Sprint("value ", i)
		s.put(a, "key", want)
		if got := s.get(b, "key"); got != want {
			s.Fatalf("another process reads %q after %q was written", got, want)
		}
		a, b = b, a
	}
	s.ok(errOf(a.Txn(s.ctx(), registry.Txn{Deletes: []string{"key", "never was"}})))
	if got := s.get(b, "key"); got != "<absent>" {
		s.Fatalf("another process reads %q after the delete", got)
	}
}

func anyBytes(s *suite) {
	a, b := s.open(), s.open()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	keys := []string{"plain", "with space", "ünïcode/ключ", "a'b\"c`d;--", "per%cent_under\\score", "new\nline", strings.Repeat("x", registry.MaxKeyBytes), "\xff\xfe"}
	for _, k := range keys {
		s.put(a, k, string(all))
	}
	for _, k := range keys {
		e, err := b.Get(s.ctx(), k)
		s.ok(err)
		if !bytes.Equal(e.Value, all) {
			s.Fatalf("key %q: the value came back changed", k)
		}
	}
	s.put(a, "empty", "")
	if e, err := b.Get(s.ctx(), "empty"); err != nil || len(e.Value) != 0 || e.Version == "" {
		s.Fatalf("an empty value came back as %q, version %q, %v", e.Value, e.Version, err)
	}
	for _, bad := range []string{"", "nul\x00", strings.Repeat("x", registry.MaxKeyBytes+1)} {
		s.is(errOf(a.Txn(s.ctx(), registry.Txn{Puts: []registry.Put{{Key: bad}}})), registry.ErrInvalid)
	}
}

func largeValues(s *suite) {
	a, b := s.open(), s.open()
	for _, n := range []int{1, 4096, 70_000, registry.MaxValueBytes} {
		value := bytes.Repeat([]byte{byte(n), 0, 255, 'x'}, n/4+1)[:n]
		s.put(a, "large", string(value))
		e, err := b.Get(s.ctx(), "large")
		s.ok(err)
		if !bytes.Equal(e.Value, value) {
			s.Fatalf("%d bytes came back as %d others", n, len(e.Value))
		}
	}
	s.is(errOf(a.Txn(s.ctx(), registry.Txn{Puts: []registry.Put{{Key: "large", Value: make([]byte, registry.MaxValueBytes+1)}}})), registry.ErrInvalid)
}

func manyKeys(s *suite) {
	a, b := s.open(), s.open()
	txns := make([]registry.Txn, s.h.Many)
	for i := range txns {
		n := (i*7919 + 13) % s.h.Many // not in order
		txns[i] = registry.Txn{Puts: []registry.Put{{Key: key(n), Value: []byte(key(n))}}}
	}
	for chunk := range slices.Chunk(txns, 500) {
		results, err := a.Apply(s.ctx(), chunk)
		s.ok(err)
		for _, r := range results {
			s.ok(r.Err)
		}
	}
	snap, err := b.List(s.ctx(), "k/")
	s.ok(err)
	seen := map[string]bool{}
	for _, e := range snap.Entries {
		seen[e.Key] = true
		if e.Key != string(e.Value) {
			s.Fatalf("key %q has the value %q", e.Key, e.Value)
		}
	}
	if !slices.IsSortedFunc(snap.Entries, func(x, y registry.Entry) int { return strings.Compare(x.Key, y.Key) }) {
		s.Fatal("the list is not sorted")
	}
	if len(seen) != s.h.Many || len(snap.Entries) != s.h.Many { // 7919 is a prime: each number came once
		s.Fatalf("%d entries, %d distinct; expected %d", len(snap.Entries), len(seen), s.h.Many)
	}
}

func prefixes(s *suite) {
	a := s.open()
	for _, k := range []string{"a", "a/", "a/1", "a/2", "a0", "ab", "A/1", "a_1", "axb/1", "b", "a/\xff", "a%/x"} {
		s.put(a, k, k)
	}
	for prefix, want := range map[string][]string{
		"a/": {"a/", "a/1", "a/2", "a/\xff"}, "a/1": {"a/1"}, "a_": {"a_1"}, "a%": {"a%/x"}, "b": {"b"}, "c": nil,
		"": {"A/1", "a", "a%/x", "a/", "a/1", "a/2", "a/\xff", "a0", "a_1", "ab", "axb/1", "b"},
	} {
		snap, err := a.List(s.ctx(), prefix)
		s.ok(err)
		var got []string
		for _, e := range snap.Entries {
			got = append(got, e.Key)
		}
		if !slices.Equal(got, want) {
			s.Errorf("prefix %q: %q, expected %q", prefix, got, want)
		}
	}
}

func ownership(s *suite) {
	a := s.open()
	value := []byte("original")
	s.ok(errOf(a.Txn(s.ctx(), registry.Txn{Puts: []registry.Put{{Key: "k", Value: value}}})))
	copy(value, "CHANGED!")
	e, err := a.Get(s.ctx(), "k")
	s.ok(err)
	copy(e.Value, "changed?")
	_ = append(e.Value, "over the end"...)
	if got := s.get(a, "k"); got != "original" {
		s.Fatalf("the store holds %q after the caller changed its slices", got)
	}
}

func checks(s *suite) {
	a := s.open()
	v1 := s.put(a, "k", "1")
	v2 := s.put(a, "k", "2")
	for _, c := range []struct {
		name    string
		version registry.Version
		key     string
		ok      bool
	}{
		{"the version it has", v2, "k", true},
		{"an older version", v1, "k", false},
		{"absence of what is there", "", "k", false},
		{"absence", "", "absent", true},
		{"a version of what is absent", v2, "absent", false},
		{"a version that is none of ours", "1' OR '1'='1", "k", false},
	} {
		for _, quiet := range []bool{false, true} {
			res, err := a.Apply(s.ctx(), []registry.Txn{{
				Checks: []registry.Check{{Key: "other", Version: ""}, {Key: c.key, Version: c.version}},
				Puts:   []registry.Put{{Key: "marker", Value: []byte(c.name)}},
				Quiet:  quiet,
			}})
			s.ok(err)
			if c.ok {
				s.ok(res[0].Err)
				continue
			}
			s.is(res[0].Err, registry.ErrConflict)
			if res[0].Failed != 1 {
				s.Errorf("%s: the failed check is said to be number %d, expected 1", c.name, res[0].Failed)
			}
			if got := s.get(a, "marker"); got == c.name {
				s.Errorf("%s (quiet: %t): it was applied", c.name, quiet)
			}
		}
	}
}

func allOrNothing(s *suite) {
	a, b := s.open(), s.open()
	v := s.put(a, "x", "1")
	s.put(a, "gone", "1")
	_, err := a.Txn(s.ctx(), registry.Txn{
		Checks:  []registry.Check{{Key: "x", Version: v}, {Key: "y", Version: "nope"}},
		Puts:    []registry.Put{{Key: "x", Value: []byte("2")}, {Key: "z", Value: []byte("2")}},
		Deletes: []string{"gone"},
	})
	s.is(err, registry.ErrConflict)
	if s.get(b, "x") != "1" || s.get(b, "z") != "<absent>" || s.get(b, "gone") != "1" {
		s.Fatal("a refused transaction left a trace")
	}
	versions, err := a.Txn(s.ctx(), registry.Txn{
		Checks:  []registry.Check{{Key: "x", Version: v}, {Key: "y", Version: ""}},
		Puts:    []registry.Put{{Key: "x", Value: []byte("2")}, {Key: "z", Value: []byte("2")}},
		Deletes: []string{"gone"},
	})
	s.ok(err)
	if s.get(b, "x") != "2" || s.get(b, "z") != "2" || s.get(b, "gone") != "<absent>" {
		s.Fatal("an accepted transaction was applied in part")
	}
	for i, k := range []string{"x", "z"} {
		if e, err := b.Get(s.ctx(), k); err != nil || e.Version != versions[i] {
			s.Fatalf("key %q has version %q, the transaction returned %q (%v)", k, e.Version, versions[i], err)
		}
	}
}

func independent(s *suite) {
	a := s.open()
	v := s.put(a, "x", "1")
	res, err := a.Apply(s.ctx(), []registry.Txn{
		{Checks: []registry.Check{{Key: "x", Version: v}}, Puts: []registry.Put{{Key: "x", Value: []byte("2")}}},
		{Checks: []registry.Check{{Key: "x", Version: v}}, Puts: []registry.Put{{Key: "x", Value: []byte("3")}}}, // sees the first
		{Puts: []registry.Put{{Key: "y", Value: []byte("1")}, {Key: "z", Value: []byte("1")}}, Quiet: true},
		{Checks: []registry.Check{{Key: "y", Version: ""}}, Deletes: []string{"z"}}, // sees the third
		{Deletes: []string{"x"}},
		{Checks: []registry.Check{{Key: "x", Version: ""}}, Puts: []registry.Put{{Key: "x", Value: []byte("6")}}},
	})
	s.ok(err)
	for i, want := range []error{nil, registry.ErrConflict, nil, registry.ErrConflict, nil, nil} {
		if want == nil {
			s.ok(res[i].Err)
		} else {
			s.is(res[i].Err, want)
		}
	}
	if s.get(a, "x") != "6" || s.get(a, "z") != "1" {
		s.Fatalf("x is %s, z is %s", s.get(a, "x"), s.get(a, "z"))
	}
}

func versionsAreUnique(s *suite) {
	a, b := s.open(), s.open()
	seen := map[registry.Version]bool{}
	for i := range 30 {
		p := a
		if i%2 == 1 {
			p = b
		}
		v := s.put(p, "k", "same")
		if v == "" || seen[v] {
			s.Fatalf("version %q was given out twice, or is empty", v)
		}
		seen[v] = true
		if i%3 == 0 {
			s.ok(errOf(p.Txn(s.ctx(), registry.Txn{Deletes: []string{"k"}})))
		}
	}
	x := s.session(a, s.h.TTL)
	s.bind(a, x, "k")
	e, err := a.Get(s.ctx(), "k")
	s.ok(err)
	if seen[e.Version] {
		s.Fatalf("version %q was given out twice", e.Version)
	}
	s.ok(x.Close(s.ctx()))
	if v := s.put(b, "k", "again"); seen[v] || v == e.Version {
		s.Fatalf("version %q was given out twice", v)
	}
}

func namespaces(s *suite) {
	none, one, two, tricky := s.openIn(""), s.openIn("one"), s.openIn("two"), s.openIn("one/k")
	s.put(none, "k", "none")
	s.put(one, "k", "one")
	s.put(two, "k", "two")
	s.put(tricky, "k", "tricky")
	for p, want := range map[*Process]string{none: "none", one: "one", two: "two", tricky: "tricky"} {
		snap, err := p.List(s.ctx(), "")
		s.ok(err)
		if len(snap.Entries) != 1 || snap.Entries[0].Key != "k" || string(snap.Entries[0].Value) != want {
			s.Errorf("namespace of %q lists %+v", want, snap.Entries)
		}
	}
	if again := s.openIn("one"); s.get(again, "k") != "one" {
		s.Errorf("another process of the namespace reads %q", s.get(again, "k"))
	}
}

// storesTime: a reading tells the store's time of day, from which epochs have their floor. Two
// processes that read one after the other see it go on, and it is about that of this host.
func storesTime(s *suite) {
	a, b := s.open(), s.open()
	s.put(a, "key", "value")
	last := int64(0)
	for i := range 20 {
		snap, err := a.List(s.ctx(), "key")
		s.ok(err)
		if snap.Time < last-1000 { // the clock may be set
			s.Fatalf("reading %d says %d ms, after one that said %d", i, snap.Time, last)
		}
		last = snap.Time
		a, b = b, a
	}
	empty, err := a.List(s.ctx(), "nothing/")
	s.ok(err)
	for _, at := range []int64{last, empty.Time} {
		if off := time.Since(time.UnixMilli(at)).Abs(); off > time.Hour {
			s.Fatalf("the store says that it is %s, %s away from this host", time.UnixMilli(at).UTC(), off)
		}
	}
}
