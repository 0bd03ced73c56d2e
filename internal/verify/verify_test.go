package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
)

func TestScheduleFollowsFromItsSeed(t *testing.T) {
	t.Parallel()
	c := Config{For: time.Minute, Faults: Faults(), Partitions: 8, Consumers: 3, Producers: 2, TTL: 2 * time.Second}
	different := map[string]bool{}
	for seed := range uint64(100) {
		c.Seed = seed
		first := c.schedule()
		turned := c
		turned.Faults = slices.Clone(c.Faults)
		slices.Reverse(turned.Faults)
		if again := turned.schedule(); !slices.EqualFunc(first, again, func(a, b *Fault) bool { return *a == *b }) {
			t.Fatalf("seed %d gives two schedules", seed)
		}
		different[fmt.Sprint(first[0], first[1], first[2])] = true
		met, size := map[string]int{}, c.Partitions
		for _, f := range first {
			met[f.Kind+strings.TrimRight(f.Process, "-123")]++
			if end := f.AtMillis + f.HoldMillis; end >= c.For.Milliseconds() {
				t.Errorf("seed %d: %+v ends after the run", seed, f)
			}
			if f.Kind == Stop && f.HoldMillis <= c.TTL.Milliseconds() {
				t.Errorf("seed %d: %+v is no longer than a session lives", seed, f)
			}
			if f.Kind == Grow {
				if size *= 2; f.Partitions != size || size > 64 {
					t.Errorf("seed %d: %+v; expected %d partitions", seed, f, size)
				}
			}
		}
		if len(met) != 8 {
			t.Errorf("seed %d: a minute has only %v", seed, met)
		}
	}
	if len(different) < 50 {
		t.Errorf("100 seeds give %d schedules", len(different))
	}
}

func TestScheduleHasOnlyTheChosenFaults(t *testing.T) {
	t.Parallel()
	c := Config{For: time.Minute, Partitions: 1, Consumers: 1, Producers: 1, TTL: time.Second}
	if s := c.schedule(); len(s) > 0 {
		t.Errorf("without faults there are %d", len(s))
	}
	c.Faults = []string{Term}
	for _, f := range c.schedule() {
		if f.Kind != Term || f.Process != "consumer-1" && f.Process != "producer-1" {
			t.Errorf("%+v", f)
		}
	}
}

func TestValueTellsItsNumber(t *testing.T) {
	t.Parallel()
	seen := map[uint64]bool{}
	for _, k := range []string{"producer-1.1/0", "producer-1.1/1", "producer-1.11/1"} {
		for _, n := range []int64{1, 2, 11, math.MaxInt64} {
			v := value(k, n, minSize)
			if got := sequenceOf(v); got != n || len(v) < minSize {
				t.Errorf("value %q has number %d; expected %d", v, got, n)
			}
			seen[harness.Fingerprint(nil, v)] = true
		}
	}
	if len(seen) != 12 {
		t.Errorf("12 records have %d values", len(seen))
	}
	for _, foreign := range []string{"", "x", "  ", "99999999999999999999999 a"} {
		if n := sequenceOf([]byte(foreign)); n != 0 {
			t.Errorf("%q has number %d", foreign, n)
		}
	}
}

func TestTallyReadsWholeLinesAndMeasuresTakeovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "a-1.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	w, tally := history.NewWriter(file), newTally(dir)
	add := func(e history.Event) {
		t.Helper()
		if err := errors.Join(w.Add(e), tally.follow()); err != nil {
			t.Fatal(err)
		}
	}
	add(history.Event{Kind: history.Owned, Member: "consumer-1", Unit: 0, Epoch: 4})
	add(history.Event{Kind: history.Owned, Member: "consumer-1", Unit: 1, Epoch: 1})
	add(history.Event{Kind: history.Owned, Member: "consumer-2", Unit: 2, Epoch: 1})
	f := &Fault{Process: "consumer-1"}
	tally.watch(f)
	at := tally.watched[0].at
	add(history.Event{Kind: history.Owned, Member: "", Unit: 0, Epoch: 5, At: at + 1e6}) // nobody's yet
	add(history.Event{Kind: history.Owned, Member: "consumer-2", Unit: 0, Epoch: 6, At: at + 3e6})
	add(history.Event{Kind: history.Owned, Member: "consumer-2", Unit: 1, Epoch: 2, At: at + 2e6})
	add(history.Event{Kind: history.Owned, Member: "consumer-1", Unit: 1, Epoch: 3, At: at + 9e6}) // a later move
	if f.Units != 2 || f.TakeoverMillis != 3 {
		t.Errorf("%d units waited for %.1f ms; expected 2 and 3", f.Units, f.TakeoverMillis)
	}
	add(history.Event{Kind: history.Sent})
	add(history.Event{Kind: history.Produced})
	add(history.Event{Kind: history.Produced, Reason: acknowledgedAgain})
	if _, err := file.WriteString(`{"kind":"en`); err != nil {
		t.Fatal(err)
	}
	add2 := tally.follow()
	if _, err := file.WriteString("d\",\"unit\":0}\n"); err != nil || add2 != nil {
		t.Fatal(err, add2)
	}
	if err := tally.follow(); err != nil || tally.sent != 1 || tally.acked != 1 || tally.handled != 1 {
		t.Errorf("%v: %d sent, %d acknowledged, %d processed; expected 1 of each", err, tally.sent, tally.acked, tally.handled)
	}
}

// produceUntil lets a producer work until the history says that n records were acknowledged.
func produceUntil(t *testing.T, rf *ringfence.Client, s Spec, n int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- produce(ctx, s, rf) }() // joined below
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for tally := newTally(s.History); tally.acked < n; {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-tick.C:
			if err := tally.follow(); err != nil {
				t.Fatal(err)
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestProducerGoesOnWhereItWasKilled(t *testing.T) {
	t.Parallel()
	for _, switched := range []bool{false, true} {
		t.Run(fmt.Sprintf("switched %v", switched), func(t *testing.T) {
			t.Parallel()
			goOnWhereItWasKilled(t, switched)
		})
	}
}

func goOnWhereItWasKilled(t *testing.T, switched bool) {
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rf.Close() }()
	if err := rf.EnsureTopic(t.Context(), "t", ringfence.TopicConfig{Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	s := Spec{Name: "producer-1", Topic: "t", History: t.TempDir(), Load: &Load{Idempotent: true, Resume: true, Keys: 10, Rate: 5000, Size: minSize}}
	for s.Start = 1; s.Start <= 3; s.Start++ {
		produceUntil(t, rf, s, int64(200*s.Start))
		if s.Start == 3 {
			break
		}
		forgetAcks(t, s.path(), 5) // as if it had been killed before it could tell
		if switched {
			if _, err := rf.Admin().AddStorage(t.Context(), "t", 3+s.Start); err != nil {
				t.Fatal(err)
			}
			if _, err := rf.Admin().SwitchProduce(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
		}
	}

	acked, places := map[string]int64{}, map[uint64]string{}
	for start := range s.Start {
		path := filepath.Join(s.History, fmt.Sprintf("producer-1-%d.jsonl", start+1))
		err := harness.Read(path, 0, func(e history.Event) {
			if e.Kind != history.Produced {
				return
			}
			place := fmt.Sprint(e.Storage, "/", e.Partition, "/", e.Offset)
			if was := places[e.Value]; was != "" && was != place {
				t.Errorf("record %d of %s is at %s and at %s", e.Sequence, e.Key, was, place)
			}
			places[e.Value] = place
			if e.Sequence > acked[e.Key]+1 {
				t.Errorf("key %s: record %d is acknowledged after %d", e.Key, e.Sequence, acked[e.Key])
			}
			acked[e.Key] = max(acked[e.Key], e.Sequence)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	info, err := rf.Admin().DescribeTopic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	var stored, sent int64
	for _, st := range info.Storage {
		var here int64
		for _, p := range st.Partitions {
			here += p.Next
		}
		if here == 0 {
			t.Errorf("nothing is stored in storage topic %d", st.Index)
		}
		stored += here
	}
	for _, n := range acked {
		sent += n
	}
	if len(acked) != 10 || stored != sent {
		t.Errorf("%d keys, %d records stored of %d that were sent: expected 10, and as many", len(acked), stored, sent)
	}
}

// forgetAcks removes the last acknowledgements of n keys from a history.
func forgetAcks(t *testing.T, path string, n int) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	forgotten := map[string]bool{}
	for _, line := range slices.Backward(strings.SplitAfter(string(raw), "\n")) {
		if strings.HasPrefix(line, `{"kind":"produced"`) {
			_, key, _ := strings.Cut(line, `"key":"`)
			key, _, _ = strings.Cut(key, `"`)
			if !forgotten[key] && len(forgotten) < n {
				forgotten[key] = true
				continue
			}
		}
		kept = append(kept, line)
	}
	slices.Reverse(kept)
	if err := os.WriteFile(path, []byte(strings.Join(kept, "")), 0o600); err != nil || len(forgotten) != n {
		t.Fatalf("%v: %d forgotten; expected %d", err, len(forgotten), n)
	}
}

func TestRunLeavesNothingWhenProcessesCantStart(t *testing.T) {
	t.Parallel()
	c := small(t, "", "")
	c.Command = func(Spec) (string, []string, []string) {
		return "/bin/sh", []string{"-c", "echo no store here >&2; exit 3"}, nil
	}
	r, err := Run(t.Context(), c)
	if err == nil || errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "ended while it was starting (exit code 3): no store here") || r.Began {
		t.Errorf("%v, began %t", err, r.Began)
	}
	rf, err := ringfence.Open(t.Context(), c.Client)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rf.Close() }()
	if _, err := rf.Admin().DescribeTopic(t.Context(), r.Topic); !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("topic %s: %v; expected that it is gone", r.Topic, err)
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	t.Parallel()
	c := Config{Faults: []string{"kil"}, Size: -1}
	err := c.Validate()
	for _, what := range []string{"--for 0s: expected 1s to 24h", "--partitions 0", "--consumers 0", "--producers 0", "--rate 0", "--size -1", "--session-ttl 0s", `"kil" is none`} {
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("%v\ndoes not say %q", err, what)
		}
	}
}

// The judgement of a run, from histories as its processes would have written them.
func TestVerdict(t *testing.T) {
	t.Parallel()
	sound := []history.Event{
		{Kind: history.Owned, At: 1, Member: "consumer-1", Epoch: 1},
		{Kind: history.Sent, At: 2, Key: "k", Sequence: 1, Value: 5},
		{Kind: history.Produced, At: 3, Key: "k", Sequence: 1, Value: 5},
		{Kind: history.Started, At: 4, Member: "consumer-1", Epoch: 1, Key: "k", Sequence: 1, Value: 5},
		{Kind: history.Finished, At: 5, Member: "consumer-1", Epoch: 1, Key: "k", Sequence: 1, Value: 5},
	}
	for name, c := range map[string]struct {
		events   []history.Event
		complete bool
		deaths   []string
		want     Verdict
	}{
		"all is well":               {sound, true, nil, AllKept},
		"it ended early":            {sound, false, nil, Unfinished},
		"a record was lost":         {sound[:3], true, nil, Broken},
		"a record is to come":       {sound[:3], false, nil, Unfinished},
		"a process ended unasked":   {sound, true, []string{"consumer-1"}, Broken},
		"it is there, and not ours": {append(slices.Clone(sound), history.Event{Kind: history.Started, At: 6, Member: "consumer-1", Epoch: 1, Offset: 1, Key: "x", Value: 9}), false, nil, Broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &run{crew: &crew{dir: t.TempDir()}}
			r.result.Complete, r.result.Deaths = c.complete, c.deaths
			f, err := os.Create(filepath.Join(r.dir, "all-1.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range c.events {
				if err := history.NewWriter(f).Add(e); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			err = r.verdict(new(history.Report))
			if r.result.Verdict != c.want || errors.Is(err, ErrBroken) != (c.want == Broken) || err != nil && c.want != Broken {
				t.Errorf("%s, %v; expected %s", r.result.Verdict, err, c.want)
			}
		})
	}
}

func TestTakeoversSumUpByKind(t *testing.T) {
	t.Parallel()
	got := takeovers(Faults(), []*Fault{
		{Kind: Kill, Done: true, TakeoverMillis: 30}, {Kind: Kill, Done: true, TakeoverMillis: 10},
		{Kind: Kill, Done: true}, {Kind: Kill}, {Kind: Stop, Done: true, TakeoverMillis: 7},
	})
	want := []Takeover{
		{Kind: Kill, Planned: 4, Done: 3, Takeovers: 2, MedianMillis: 20, MaxMillis: 30},
		{Kind: Stop, Planned: 1, Done: 1, Takeovers: 1, MedianMillis: 7, MaxMillis: 7},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v; expected %+v", got, want)
	}
}
