package redisregistry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// Whoever may publish on a server, in whatever database, may say anything among the failure detectors. A death is
// noticed all the same, long before the session would expire.
func TestAStrangerOnTheDetectorsChannelSilencesNobody(t *testing.T) {
	t.Parallel()
	cfg := server(t)
	s, dead, stranger := mustOpen(t, cfg), mustOpen(t, cfg), mustOpen(t, cfg)
	for _, x := range []*store{s, dead} {
		if _, err := x.OpenSession(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var shouting sync.WaitGroup
	shouting.Go(func() {
		pause := time.NewTicker(10 * time.Millisecond)
		defer pause.Stop()
		for ctx.Err() == nil {
			for _, m := range []string{"call ! 0", "call ----------- 3600000", "call ----------0 1000000"} {
				_ = stranger.client.Do(ctx, stranger.client.B().Spublish().Channel(s.names.detector).Message(m).Build()).Error()
			}
			<-pause.C
		}
	})
	defer shouting.Wait()
	defer stop()
	dead.shut(false)
	eventually(t, "a death is noticed while a stranger calls", func() error {
		if n := sessions(t, s); n != 1 {
			return fmt.Errorf("%d sessions", n)
		}
		return nil
	})
}

// The pause that a call wishes for is clamped to what processes that are not alone can need.
func TestACallWishesAndNoMore(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{-time.Hour, 0, time.Second, time.Hour, 1<<63 - 1} {
		if d := new(detector).follow(pause); d < missed*busyPause || d > (missed+1)*idlePause {
			t.Errorf("after a call that announces the next in %s the wait is %s", pause, d)
		}
	}
}

// sessions is how many the store has.
func sessions(t *testing.T, s *store) int64 {
	t.Helper()
	n, err := s.client.Do(t.Context(), s.client.B().Scard().Key(s.names.keys[4]).Build()).AsInt64()
	if err != nil {
		return -1 // it is asked again
	}
	return n
}

// What somebody else wrote into the place of an entry is damage of that entry alone: the others are listed,
// and it can be overwritten and deleted as any other.
func TestAnEntryThatNoneOfOursWroteHarmsNoOther(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, server(t))
	put := func(key string) error {
		res, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: key, Value: []byte("{}")}}}})
		if err != nil {
			return err
		}
		return res[0].Err
	}
	if err := put("g/sound"); err != nil {
		t.Fatal(err)
	}
	const head = "0000000000001AAAAAAAAAAA"
	odd := map[string]string{
		"g/short": "x", "g/kind": head + "z{}", "g/endless": head + "bsession",
		"g/large": head + "u" + strings.Repeat("x", 3<<20), "g/" + strings.Repeat("k", 3<<20): head + "u{}",
	}
	for key, raw := range odd {
		b := s.client.B()
		for _, r := range s.client.DoMulti(t.Context(), b.Hset().Key(s.names.keys[1]).FieldValue().FieldValue(key, raw).Build(),
			b.Zadd().Key(s.names.keys[2]).ScoreMember().ScoreMember(0, key).Build()) {
			if err := r.Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	snap, err := s.List(t.Context(), "g/")
	if err != nil || len(snap.Entries) != len(odd)+1 {
		t.Fatalf("%d entries, %v; expected all %d", len(snap.Entries), err, len(odd)+1)
	}
	for _, e := range snap.Entries {
		if e.Key == "g/sound" || len(e.Key) > registry.MaxKeyBytes {
			continue
		}
		if json.Valid(e.Value) || len(e.Value) > 64 {
			t.Errorf("%s has a value of %d bytes that can be a document", e.Key, len(e.Value))
		}
		res, err := s.Apply(t.Context(), []driver.Txn{{Checks: []driver.Check{{Key: e.Key, Version: e.Version}}, Puts: []driver.Put{{Key: e.Key, Value: []byte("{}")}}}})
		if err != nil || res[0].Err != nil {
			t.Errorf("%s can't be overwritten: %v, %v", e.Key, err, res)
		}
	}
}

// A revision that nobody counted makes no entry that can't be read, and the way out is told.
func TestARevisionThatNobodyCountedIsTold(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, server(t))
	txn := []driver.Txn{{Puts: []driver.Put{{Key: "k", Value: []byte("{}")}}}}
	if _, err := s.Apply(t.Context(), txn); err != nil {
		t.Fatal(err)
	}
	set := func(v string) {
		if err := s.client.Do(t.Context(), s.client.B().Hset().Key(s.names.meta).FieldValue().FieldValue("revision", v).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range []string{"soon", "9223372036854775806", "99999999999999", "-1", "1.5", "nan", "inf", ""} {
		set(v)
		if _, err := s.Apply(t.Context(), txn); !errors.Is(err, fault.Corrupt) || !strings.Contains(fmt.Sprint(err), s.names.meta) || !strings.Contains(fmt.Sprint(err), "HSET") {
			t.Errorf("revision %q: %v; expected damage, its key and what mends it", v, err)
		}
		if snap, err := s.List(t.Context(), ""); err != nil || len(snap.Entries) != 1 {
			t.Errorf("revision %q: %v, %v; expected the entry to be listed", v, snap.Entries, err)
		}
	}
	set("1000000")
	if res, err := s.Apply(t.Context(), txn); err != nil || res[0].Err != nil {
		t.Errorf("after the way out: %v, %v", res, err)
	}
}

// Where somebody has put something else into the place of a key, a transaction is refused before it has
// written anything: nobody can take back half of it. The error names the key, and what mends it.
func TestAKeyOfAnotherTypeStopsNoTransactionMidway(t *testing.T) {
	t.Parallel()
	const bound, names = 3, 2
	for _, key := range []int{bound, names} {
		cfg := server(t)
		s := mustOpen(t, cfg)
		x, err := s.OpenSession(t.Context(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		b := s.client.B()
		broken := s.names.keys[key]
		set := func() {
			if err := s.client.Do(t.Context(), b.Set().Key(broken).Value("x").Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
		set()
		put := driver.Put{Key: "g/member", Value: []byte("{}"), Session: x.ID()}
		if _, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{put}}}); !errors.Is(err, fault.Corrupt) || !strings.Contains(fmt.Sprint(err), broken) || !strings.Contains(fmt.Sprint(err), "(DEL)") {
			t.Errorf("%s: %v; expected damage, the key and the way out", broken, err)
		}
		if n, err := s.client.Do(t.Context(), b.Hlen().Key(s.names.keys[1]).Build()).AsInt64(); err != nil || n != 0 {
			t.Errorf("%s: %d entries were written by what was refused, %v", broken, n, err)
		}
		if err := s.client.Do(t.Context(), b.Del().Key(broken).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if res, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{put}}}); err != nil || res[0].Err != nil {
			t.Errorf("%s: after the way out: %v, %v", broken, err, res)
		}
	}
}
