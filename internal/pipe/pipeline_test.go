package pipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/spell"
)

// memClient is a client in memory with a topic "t".
func memClient(t *testing.T, partitions int) *ringfence.Client {
	t.Helper()
	ctx := t.Context()
	rf, err := ringfence.Open(ctx, ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rf.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := rf.EnsureTopic(ctx, "t", ringfence.TopicConfig{Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	return rf
}

func (s *Summary) String() string {
	return fmt.Sprintf("acked %d, unknown %d, failed %d, later %d", s.Acked, s.unknown, s.failed, s.later)
}

func produceAll(t *testing.T, rf *ringfence.Client, cfg Config, in io.Reader) Summary {
	t.Helper()
	cfg.Topic = "t"
	return New(rf, cfg).Run(t.Context(), NewReader(in), nil, nil)
}

func TestProduceKeepsTheOrderOfLinesWithinAPartition(t *testing.T) {
	t.Parallel()
	rf := memClient(t, 1)
	var in, out strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&in, "line %d\n", i)
	}
	sum := produceAll(t, rf, Config{Partition: -1, InFlight: 64, Maker: &Maker{}, Places: &out}, strings.NewReader(in.String()))
	if err := sum.Fault(); err != nil || sum.Acked != 10_000 {
		t.Fatalf("%v, fault %v; expected 10,000 acked", &sum, err)
	}
	places := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(places) != 10_000 || places[9999] != `{"topic":"t","storage":0,"partition":0,"offset":9999}` {
		t.Fatalf("%d places, the last %s", len(places), places[len(places)-1])
	}
	st, err := rf.Log().Topics(t.Context())
	if err != nil || len(st) != 1 {
		t.Fatalf("storage topics %v, %v", st, err)
	}
	topic, err := rf.Log().Topic(t.Context(), st[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close()
	var recs []commitlog.Record
	for next := int64(0); next < 10_000; {
		if recs, next, err = topic.Read(t.Context(), 0, next, recs, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range recs {
		if want := fmt.Sprintf("line %d", i); string(recs[i].Value) != want {
			t.Fatalf("record %d is %q; expected %q", i, recs[i].Value, want)
		}
	}
}

func TestProduceSaysWhichLineWasNotStored(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", commitlog.MaxRecordBytes+1)
	longer := strings.Repeat("x", commitlog.MaxRecordBytes+commitlog.MaxKeyBytes+2)
	for name, c := range map[string]struct {
		in        string
		maker     Maker
		partition int
		want      string
		says      string
	}{
		"a record too large": {
			in: "a\nb\n" + large + "\nd\n", want: "acked 2, unknown 0, failed 3, later 0",
			says: "line 3 was not stored (2 lines before it stored",
		},
		"a line longer than any record": {
			in: "a\n" + longer + "\n", want: "acked 1, unknown 0, failed 2, later 0",
			says: "longer than a record can be",
		},
		"no key": {
			in: "k:a\nk:b\nc\nk:d\n", maker: Maker{Separator: []byte(":")}, want: "acked 2, unknown 0, failed 3, later 0",
			says: `no separator ":": expected key:value`,
		},
		"the first line": {
			in: "{\n", maker: Maker{JSON: true}, want: "acked 0, unknown 0, failed 1, later 0",
			says: "line 1 was not stored (0 lines before it stored)",
		},
		"a partition that is not there": {
			in: "a\n", partition: 7, want: "acked 0, unknown 0, failed 1, later 0",
			says: "7 is out of range",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Partition: -1, InFlight: 16, Maker: &c.maker}
			if c.partition != 0 {
				cfg.Partition = c.partition
			}
			sum := produceAll(t, memClient(t, 2), cfg, strings.NewReader(c.in))
			if sum.String() != c.want {
				t.Errorf("%v; expected %s", &sum, c.want)
			}
			err := sum.Fault()
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the message %q does not say %q", err, c.says)
			}
			if fault.ExitCode(err) != fault.ExitUsage {
				t.Errorf("exit code %d; expected %d", fault.ExitCode(err), fault.ExitUsage)
			}
		})
	}
}

// A failure in the middle of what is under way: later lines may have been stored, and the first
// that was not is the one that is named.
func TestSummaryNamesTheFirstFailureWhateverTheOrderOfAnswers(t *testing.T) {
	t.Parallel()
	p := New(nil, Config{Partition: -1, InFlight: 8})
	p.queued, p.open = 6, 6
	for _, a := range []answer{
		{line: 6}, {line: 4, err: ringfence.ErrUnknown}, {line: 1}, {line: 5}, {line: 3, err: ringfence.ErrNotAppended}, {line: 2},
	} {
		a.here = true
		p.take(a)
	}
	if got, want := p.sum.String(), "acked 4, unknown 1, failed 3, later 2"; got != want {
		t.Errorf("%s; expected %s", got, want)
	}
	want := "line 3 was not stored (2 lines before it stored, and 2 after it, 1 of unknown fate): not done"
	if err := p.sum.Fault(); err == nil || err.Error() != want {
		t.Errorf("%v\nexpected %s", err, want)
	}
}

type brokenPipe struct{ room int }

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.room -= len(p); b.room < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestProduceStopsWhenItsOutputIsGone(t *testing.T) {
	t.Parallel()
	in := bytes.Repeat([]byte("line\n"), 100_000)
	sum := produceAll(t, memClient(t, 1), Config{Partition: -1, InFlight: 16, Maker: &Maker{}, Places: &brokenPipe{room: 100_000}}, bytes.NewReader(in))
	if err := sum.Fault(); !errors.Is(err, ErrPlacesLost) {
		t.Errorf("fault %v; expected that the places can't be printed", err)
	}
	if sum.Acked == 0 || sum.Acked == 100_000 {
		t.Errorf("%d lines stored; expected some, and an end before the last", sum.Acked)
	}
}

// errSignalled is why a context of these tests ends.
var errSignalled = errors.New("interrupted by a signal")

// A signal ends the reading and cuts off nothing that was queued: every line before the named one
// is stored, and none after it.
func TestProduceTellsWhatIsStoredWhenASignalEndsIt(t *testing.T) {
	t.Parallel()
	rf := memClient(t, 1)
	in, feed := io.Pipe()
	defer feed.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	p := New(rf, Config{Topic: "t", Partition: -1, InFlight: 1 << 10, Maker: &Maker{}, Drain: errSignalled})
	var sum Summary
	ended := make(chan struct{})
	go func() { // joined by ended
		defer close(ended)
		sum = p.Run(ctx, NewReader(in), nil, nil)
	}()
	for range 5000 { // a write returns when it was read
		if _, err := io.WriteString(feed, "line\n"); err != nil {
			t.Fatal(err)
		}
	}
	cancel(errSignalled)
	<-ended
	info, err := rf.Admin().DescribeTopic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	kept := info.Storage[0].Partitions[0].Next
	if sum.Acked != kept || sum.failed != kept+1 || sum.unknown != 0 {
		t.Errorf("%v, and %d records in the log", &sum, kept)
	}
	fault := sum.Fault()
	want := fmt.Sprintf("%s stored, and the input had not ended; line %d is the first that was not", spell.Plural(kept, "line"), kept+1)
	if fault == nil || !strings.HasPrefix(fault.Error(), want) || !errors.Is(fault, errSignalled) {
		t.Errorf("fault %v; expected %q", fault, want)
	}
}

func TestProduceEndsWithItsContextThoughTheInputIsSilent(t *testing.T) {
	t.Parallel()
	silent, keep := io.Pipe()
	defer keep.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	p := New(memClient(t, 1), Config{Topic: "t", Partition: -1, InFlight: 16, Maker: &Maker{}, Drain: errSignalled})
	done := make(chan Summary)
	go func() { done <- p.Run(ctx, NewReader(silent), nil, nil) }() // joined by done
	if _, err := io.WriteString(keep, "one\n"); err != nil {
		t.Fatal(err)
	}
	cancel(errSignalled)
	sum := <-done
	if err := sum.Fault(); err == nil || !strings.Contains(err.Error(), errSignalled.Error()) {
		t.Errorf("fault %v; expected that a signal interrupted it", err)
	}
}

// After --timeout nobody waits for an answer that does not come, and nothing is claimed of its line.
func TestProduceLeavesTheFateOfUnansweredLinesOpen(t *testing.T) {
	t.Parallel()
	p := New(nil, Config{Partition: -1, InFlight: 4})
	p.queued, p.open = 4, 4
	p.take(answer{line: 1, here: true})
	p.take(answer{line: 3, here: true})
	p.abandon(context.DeadlineExceeded)
	if want := "acked 2, unknown 2, failed 2, later 1"; p.sum.String() != want || p.open != 0 {
		t.Errorf("%v, %d open; expected %s, 0 open", &p.sum, p.open, want)
	}
	err := p.sum.Fault()
	if want := "line 2 may or may not be stored (1 line before it stored, and 1 after it, 2 of unknown fate)"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the message is %q; expected %q", err, want)
	}
}
