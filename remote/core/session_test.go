package core_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/remote/core"
)

const s = time.Second

// bench is a pool, its clock and what came of its effects.
type bench struct {
	*core.Pool
	t       *testing.T
	now     time.Duration
	unit    *core.Unit
	answers []core.Effect
	joined  int
	ended   int
}

func newBench(t *testing.T, workers bool) *bench {
	t.Helper()
	var handOuts uint64
	return &bench{t: t, unit: &core.Unit{Partition: 3, Epoch: 7}, Pool: core.NewPool(workers, func() uint64 {
		handOuts++
		return handOuts
	})}
}

// did takes the effects.
func (b *bench) did() {
	for _, e := range b.Effects() {
		switch e.Kind {
		case core.Answer:
			b.answers = append(b.answers, e)
		case core.Join:
			b.joined++
		case core.Ended:
			b.ended++
		case core.Wake:
		}
	}
}

// open opens a session that was heard, with a stream or in pages.
func (b *bench) open(cfg core.Config) *core.Session {
	b.t.Helper()
	if cfg.Window == 0 {
		cfg.Window = 4
	}
	if cfg.WindowBytes == 0 {
		cfg.WindowBytes = 1000
	}
	if cfg.TTL == 0 {
		cfg.TTL = 30 * s
	}
	x := b.Open(b.now, cfg)
	if cfg.Paged {
		b.page(x, 0)
		return x
	}
	x.Attach(b.now)
	b.post(x, &core.Post{Seen: x.Take(b.now)[0].N})
	return x
}

func (b *bench) offer(sizes ...int) (rs []*core.Record) {
	for _, size := range sizes {
		r := &core.Record{Unit: b.unit, Size: size}
		b.Offer(b.now, r)
		rs = append(rs, r)
	}
	b.did()
	return rs
}

func (b *bench) post(x *core.Session, p *core.Post) []core.Refusal {
	b.t.Helper()
	refused, err := x.Answers(b.now, p)
	if err != nil {
		b.t.Fatal(err)
	}
	b.did()
	return refused
}

// page reads what is above a number; it does not wait.
func (b *bench) page(x *core.Session, after int64) []core.Line {
	b.t.Helper()
	lines, read, done, err := x.Read(b.now, after)
	if err != nil {
		b.t.Fatal(err)
	}
	if !done {
		lines, _ = x.Fetch(b.now, read, after, true)
	}
	b.did()
	return lines
}

func (b *bench) tick(by time.Duration) {
	b.now += by
	b.Tick(b.now)
	b.did()
}

// answered returns what became of a record: the newest answer, 0 for none.
func (b *bench) answered(r *core.Record) (o core.Outcome) {
	for _, e := range b.answers {
		if e.Record == r {
			o = e.Outcome
		}
	}
	return o
}

func kinds(lines []core.Line) (ks []core.Kind) {
	for _, l := range lines {
		ks = append(ks, l.Kind)
	}
	return ks
}

func TestSessionTakesPartOnceItWasHeard(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.Open(0, core.Config{Window: 4, WindowBytes: 100, TTL: 30 * s})
	x.Attach(0)
	b.offer(1)
	if lines := x.Take(0); len(lines) != 1 || lines[0].Kind != core.Opened || b.joined != 0 {
		t.Fatalf("%+v, joined %d", lines, b.joined)
	}
	if _, err := x.Answers(0, &core.Post{Seen: 2}); !errors.Is(err, fault.Invalid) {
		t.Fatalf("a line that was never sent: %v", err)
	}
	b.post(x, &core.Post{Seen: 1})
	b.post(x, &core.Post{Seen: 1})
	if lines := x.Take(0); len(lines) != 1 || lines[0].Kind != core.Handed || b.joined != 1 {
		t.Fatalf("%+v, joined %d", lines, b.joined)
	}
}

func TestCommitTakesOnlyWhatWasRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{})
	rs := b.offer(1, 1, 1)
	lines := x.Take(b.now)
	b.post(x, &core.Post{Seen: lines[0].N, Failed: []core.Failure{{N: lines[1].N}}, Commit: lines[0].N})
	if _, err := x.Answers(b.now, &core.Post{Commit: lines[2].N}); !errors.Is(err, fault.Invalid) {
		t.Fatalf("a commit above seen: %v", err)
	}
	b.post(x, &core.Post{Seen: lines[2].N, Commit: lines[2].N})
	for i, want := range []core.How{core.Done, core.Failed, core.Done} {
		if o := b.answered(rs[i]); o.How != want {
			t.Errorf("record %d: %+v; expected %d", i, o, want)
		}
	}
}

func TestDeadlineCountsFromTheSendingOfWhatWasSeen(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{TTL: 30 * s})
	b.tick(10 * s)
	beat := x.Take(b.now)[0]
	b.tick(15 * s)
	b.post(x, &core.Post{Seen: beat.N}) // sent at 10 s
	b.tick(14 * s)
	if x.Over() != "" {
		t.Fatalf("over at 39 s: %s", x.Over())
	}
	b.post(x, &core.Post{Seen: beat.N, Done: []int64{beat.N}}) // neither a repeat nor an answer is a sign of life
	b.tick(2 * s)
	if x.Over() != core.BySilence || b.ended != 1 {
		t.Fatalf("%q at 41 s", x.Over())
	}
}

func TestStandstillOfTheDaemonEndsNoSession(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{TTL: 30 * s, Within: 30 * s})
	b.tick(2 * s)
	r := b.offer(1)[0]
	line := x.Take(b.now)[0]
	b.now += 100 * s
	b.Late(95 * s)
	b.tick(0)
	if x.Over() != "" || b.answered(r).How != 0 {
		t.Fatalf("over %q, record %+v", x.Over(), b.answered(r))
	}
	b.tick(20 * s) // 25 s after the sending, without the standstill
	b.post(x, &core.Post{Seen: line.N, Done: []int64{line.N}})
	b.tick(4 * s) // 29 s after it, and 31 s after that of the line before
	if x.Over() != "" {
		t.Fatal(x.Over())
	}
}

func TestRepeatedPostChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{})
	b.offer(1, 1, 1)
	ls := x.Take(b.now)
	p := &core.Post{Seen: ls[2].N, Done: []int64{ls[0].N}, Failed: []core.Failure{{N: ls[1].N}}, Released: []int64{ls[2].N, 99}}
	first := b.post(x, p)
	n := len(b.answers)
	again := b.post(x, p)
	if !slices.Equal(first, again) || len(b.answers) != n || n != 3 {
		t.Fatalf("%v, then %v; %d answers, then %d", first, again, n, len(b.answers))
	}
	if len(first) != 1 || first[0] != (core.Refusal{N: 99, Why: core.Unknown}) {
		t.Fatalf("%v", first)
	}
	if got := b.post(x, &core.Post{Done: []int64{ls[1].N}}); len(got) != 1 || got[0].Why != core.Conflict {
		t.Fatalf("another answer: %v", got)
	}
}

func TestRepeatedCommitNamesAgainWhatWasRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{})
	b.offer(1, 1)
	ls := x.Take(b.now)
	p := &core.Post{Seen: ls[1].N, Done: []int64{ls[0].N}, Commit: ls[1].N}
	first := b.post(x, p)
	x.Refused(ls[0].N) // the engine has lost the partition, and not said so yet
	x.Refused(ls[1].N)
	again := b.post(x, p)
	if want := []core.Refusal{{N: ls[0].N, Why: core.Fenced}, {N: ls[1].N, Why: core.Fenced}}; len(first) != 0 || !slices.Equal(again, want) {
		t.Fatalf("%v, then %v; expected %v", first, again, want)
	}
}

func TestReleasedRecordRests(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{})
	rs := b.offer(1, 1)
	ls := x.Take(b.now)
	b.post(x, &core.Post{Released: []int64{ls[0].N}})
	b.Revoke(b.now, b.now+10*s, b.unit, "it moves")
	b.post(x, &core.Post{Released: []int64{ls[1].N}})
	if b.answered(rs[0]).Pause != s || b.answered(rs[1]).Pause != 0 {
		t.Fatalf("%+v, %+v", b.answered(rs[0]), b.answered(rs[1]))
	}
}

func TestLostRecordKeepsItsPlaceUntilItIsAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{Window: 2})
	old := b.offer(1, 1)
	ls := x.Take(b.now)
	b.Lose(b.now, b.unit, "fenced")
	b.did()
	lost := x.Take(b.now)
	if len(lost) != 1 || lost[0].Kind != core.Lost || !slices.Equal(lost[0].Records, []int64{ls[0].N, ls[1].N}) {
		t.Fatalf("%+v", lost)
	}
	if b.answered(old[0]).How != core.Released {
		t.Fatal("the engine waits for an answer that never comes")
	}
	b.unit = &core.Unit{Partition: 3, Epoch: 7} // the grant is resumed
	b.offer(1)
	if lines := x.Take(b.now); len(lines) != 0 || x.Out() != 2 {
		t.Fatalf("%+v, %d out", lines, x.Out())
	}
	if refused := b.post(x, &core.Post{Done: []int64{ls[0].N}}); len(refused) != 1 || refused[0].Why != core.Fenced {
		t.Fatalf("%v", refused)
	}
	if lines := x.Take(b.now); len(lines) != 1 || lines[0].Record.Token <= old[1].Token {
		t.Fatalf("%+v; expected a token above %d", lines, old[1].Token)
	}
}

func TestRevokedUnitGivesBackWhatWasNotSent(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{Window: 2})
	rs := b.offer(1)
	sent := x.Take(b.now)[0]
	rs = append(rs, b.offer(1, 1)...) // one waits for the writer, one for room
	b.Revoke(b.now, b.now+10*s, b.unit, "it moves")
	b.did()
	if b.answered(rs[0]).How != 0 || b.answered(rs[1]).How != core.Released || b.answered(rs[2]).How != core.Released {
		t.Fatalf("%+v", b.answers)
	}
	if lines := x.Take(b.now); len(lines) != 1 || lines[0].Kind != core.Revoke || x.Out() != 1 {
		t.Fatalf("%+v, %d out", lines, x.Out())
	}
	b.post(x, &core.Post{Done: []int64{sent.N}})
	b.Revoked(b.unit, 41, "other")
	if lines := x.Take(b.now); len(lines) != 1 || lines[0].Checkpoint != 41 || lines[0].Other != "other" {
		t.Fatalf("%+v", lines)
	}
}

func TestUnansweredRecordIsCancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	x := b.open(core.Config{Within: 5 * s})
	r := b.offer(1)[0]
	line := x.Take(b.now)[0]
	b.tick(6 * s)
	if o := b.answered(r); o.How != core.Failed || o.Error == "" {
		t.Fatalf("%+v", o)
	}
	if lines := x.Take(b.now); lines[0].Kind != core.Cancel || lines[0].Records[0] != line.N || x.Out() != 1 {
		t.Fatalf("%+v", lines)
	}
	if refused := b.post(x, &core.Post{Done: []int64{line.N}}); len(refused) != 1 || refused[0].Why != core.Fenced || x.Out() != 0 {
		t.Fatalf("%v", refused)
	}
}

func TestLargeRecordTravelsAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{WindowBytes: 100})
	b.offer(60, 500, 1)
	first := x.Take(b.now)
	if len(first) != 1 {
		t.Fatalf("%d lines", len(first))
	}
	b.post(x, &core.Post{Done: []int64{first[0].N}})
	large := x.Take(b.now)
	if len(large) != 1 || large[0].Record.Size != 500 {
		t.Fatalf("%+v", large)
	}
	b.post(x, &core.Post{Done: []int64{large[0].N}})
	if last := x.Take(b.now); len(last) != 1 {
		t.Fatalf("%+v", last)
	}
}

func TestCrashChargesWhatWasOut(t *testing.T) {
	t.Parallel()
	for _, why := range []string{core.ByCut, core.BySilence, core.ByClient, core.ByDrain} {
		b := newBench(t, true)
		x := b.open(core.Config{})
		sent := b.offer(1)[0]
		x.Take(b.now)
		unsent := b.offer(1)[0]
		x.End(b.now, why)
		b.did()
		want := core.Released
		if why == core.ByCut || why == core.BySilence {
			want = core.Failed
		}
		if b.answered(sent).How != want || b.answered(unsent).How != core.Released || b.ended != 1 {
			t.Errorf("%s: %+v", why, b.answers)
		}
	}
}

func TestCrashNeverUsesUpALastAttemptInCompany(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	x := b.open(core.Config{TTL: 30 * s})
	other := b.offer(1)[0]
	last := &core.Record{Unit: b.unit, Size: 1, Last: true}
	b.Offer(b.now, last)
	next := b.offer(1)[0]
	if lines := x.Take(b.now); len(lines) != 1 || lines[0].Record != other {
		t.Fatalf("%+v; expected the session to be kept for the last attempt", kinds(lines))
	}
	for range 2 {
		b.tick(10 * s)
		b.post(x, &core.Post{Seen: x.Take(b.now)[0].N})
	}
	b.tick(10 * s) // none was free in time: it goes in company
	if lines := x.Take(b.now); len(lines) != 2 || lines[1].Record != last {
		t.Fatalf("%+v", lines)
	}
	x.End(b.now, core.ByCut)
	b.did()
	if b.answered(other).How != core.Failed || b.answered(last).How != core.Released || b.answered(next).How != 0 {
		t.Fatalf("%+v", b.answers)
	}
}

func TestLastAttemptIsMadeAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	x := b.open(core.Config{})
	last := &core.Record{Unit: b.unit, Size: 1, Last: true}
	b.Offer(b.now, last)
	b.offer(1)
	lines := x.Take(b.now)
	if len(lines) != 1 || lines[0].Record != last {
		t.Fatalf("%+v", lines)
	}
	x.End(b.now, core.ByCut)
	b.did()
	if b.answered(last).How != core.Failed {
		t.Fatalf("%+v", b.answers)
	}
	y := b.open(core.Config{}) // another worker goes on with the rest
	if lines := y.Take(b.now); len(lines) != 1 {
		t.Fatalf("%+v", lines)
	}
}

func TestPageThatWasLostIsReadAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{Paged: true, Window: 3})
	b.offer(1, 1, 1, 1)
	if x.Out() != 0 {
		t.Fatal("records were taken without a read")
	}
	page := b.page(x, 1)
	again := b.page(x, 1)
	if len(page) != 3 || len(again) != 3 || page[2].N != again[2].N || x.Out() != 3 {
		t.Fatalf("%+v, then %+v", page, again)
	}
	b.post(x, &core.Post{Done: []int64{page[0].N}})
	if rest := b.page(x, 1); len(rest) != 2 || rest[0].N != page[1].N {
		t.Fatalf("%+v", rest)
	}
	if next := b.page(x, page[2].N); len(next) != 1 || next[0].Kind != core.Handed || next[0].N <= page[2].N {
		t.Fatalf("%+v", next)
	}
	if _, _, _, err := x.Read(b.now, 99); !errors.Is(err, fault.Invalid) {
		t.Fatalf("after a line that was never sent: %v", err)
	}
}

func TestReaderThatComesBackLearnsWhatIsVoid(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{Paged: true, Window: 1})
	b.offer(1)
	record := b.page(x, 1)[0]
	b.Lose(b.now, b.unit, "fenced")
	b.did()
	lost := b.page(x, record.N)[0]
	b.page(x, lost.N)     // one process has read it, and died
	again := b.page(x, 1) // the next one goes on from its place
	at := slices.Index(kinds(again), core.Lost)
	if at < 0 || again[at].N != lost.N {
		t.Fatalf("%v; expected the line that says what is void", kinds(again))
	}
	b.post(x, &core.Post{Seen: again[len(again)-1].N, Released: []int64{record.N}})
	if x.Out() != 0 {
		t.Fatalf("%d out", x.Out())
	}
}

func TestLaterReadTakesThePlaceOfOneThatWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{Paged: true})
	_, first, done, err := x.Read(b.now, 1)
	if done || err != nil {
		t.Fatal(done, err)
	}
	_, second, _, _ := x.Read(b.now, 1)
	b.offer(1)
	if lines, done := x.Fetch(b.now, first, 1, false); !done || lines != nil {
		t.Fatalf("%+v, %v", lines, done)
	}
	if lines, done := x.Fetch(b.now, second, 1, false); !done || len(lines) != 1 {
		t.Fatalf("%+v, %v", lines, done)
	}
}

func TestPageTakesNothingBeforeTheNextRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{Paged: true})
	rs := b.offer(1)
	line := b.page(x, 1)[0]
	late := b.offer(1)[0]
	if x.Out() != 1 {
		t.Fatalf("%d out; expected the one that was read", x.Out())
	}
	x.End(b.now, core.ByClient)
	b.did()
	if b.answered(rs[0]).How != core.Released || b.answered(late).How != core.Released || line.Record != rs[0] {
		t.Fatalf("%+v", b.answers)
	}
}

func TestRecordOfAUnitThatDrainsGoesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	x := b.open(core.Config{})
	b.Revoke(b.now, b.now+s, b.unit, "it moves")
	if r := b.offer(1)[0]; b.answered(r).How != core.Released || len(x.Take(b.now)) != 0 {
		t.Fatalf("%+v", b.answers)
	}
}

func TestSessionThatLeavesGetsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{})
	out := b.offer(1)[0]
	n := x.Take(b.now)[0].N
	x.Leave(b.now, b.now+10*s)
	late := b.offer(1)[0]
	if lines := x.Take(b.now); len(lines) != 1 || lines[0].Kind != core.Goodbye || lines[0].Until == 0 || b.answered(late).How != core.Released {
		t.Fatalf("%+v", lines)
	}
	if refused := b.post(x, &core.Post{Done: []int64{n}}); len(refused) != 0 || b.answered(out).How != core.Done {
		t.Fatalf("%v, %+v", refused, b.answers)
	}
}

func TestLinesSentSoonAfterEachOtherCountFromTheFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{TTL: 64 * s})
	b.tick(10 * s)
	x.Take(b.now)
	b.now += s / 2
	b.offer(1)
	second := x.Take(b.now)[0]
	b.tick(40 * s)
	b.post(x, &core.Post{Seen: second.N})
	b.tick(23*s + 3*s/4) // 74.25 s
	if x.Over() != core.BySilence {
		t.Fatalf("%q; expected the deadline at 74 s", x.Over())
	}
}

func TestBeatsKeepAStreamAlive(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	x := b.open(core.Config{TTL: 6 * s})
	for range 20 {
		b.tick(2 * s)
		lines := x.Take(b.now)
		if len(lines) != 1 || lines[0].Kind != core.Beat {
			t.Fatalf("%+v", kinds(lines))
		}
		b.post(x, &core.Post{Seen: lines[0].N})
	}
}
