package remote_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/remote"
)

func TestMemberSessionGetsEachKeyInOrder(t *testing.T) {
	t.Parallel()
	rf, h := open(t, 4)
	produce(t, rf, 50, "a", "b", "c", "d", "e")
	c := read(t, h, remote.Params{Group: "g", Topic: "orders", Window: 16})
	if l := c.next(""); l.Type != "session" || l.N != 1 || l.ID != c.s.ID() || l.Window != 16 {
		t.Fatalf("first line %+v", l)
	}
	post(t, c.s, `{"seen":1}`)
	next, tokens := map[string]int{}, map[string]string{}
	for range 250 {
		l := c.next("record")
		if l.Value != strconv.Itoa(next[l.Key]) || l.Attempt != 1 {
			t.Fatalf("key %s: value %s attempt %d; expected %d at its first", l.Key, l.Value, l.Attempt, next[l.Key])
		}
		if len(l.Token) != 32 || l.Token <= tokens[l.Key] {
			t.Fatalf("key %s: token %q after %q", l.Key, l.Token, tokens[l.Key])
		}
		next[l.Key]++
		tokens[l.Key] = l.Token
		if refused := post(t, c.s, `{"seen":%d,"done":[%d]}`, l.N, l.N); len(refused) > 0 {
			t.Fatalf("refused %v", refused)
		}
	}
	if err := c.s.Delete(); err != nil {
		t.Fatal(err)
	}
	if l := c.next("goodbye"); l.Why != "left" {
		t.Fatalf("%+v", l)
	}
	<-c.over
	var gone *remote.GoneError
	if _, err := h.Find(c.s.ID()); !errors.As(err, &gone) || gone.Why != "left" {
		t.Fatalf("found %v", err)
	}
	shut(h) // waits until the member has left
	g, err := rf.Admin().DescribeGroup(t.Context(), "g")
	if err != nil || g.Lag != 0 || len(g.Members) != 0 {
		t.Fatalf("%+v, %v", g, err)
	}
}

func TestMemberSessionGivesBackWhatItHasNotDone(t *testing.T) {
	t.Parallel()
	rf, h := open(t, 1)
	produce(t, rf, 3, "a", "b")
	c := read(t, h, remote.Params{Group: "g", Topic: "orders", Window: 2})
	post(t, c.s, `{"seen":%d}`, c.next("session").N)
	first := c.next("record")
	second := c.next("record")
	post(t, c.s, `{"seen":%d,"done":[%d]}`, second.N, first.N)
	c.cut() // the client dies: what it has not answered comes again, and the rest behind it
	<-c.over
	d := read(t, h, remote.Params{Group: "g", Window: 8})
	post(t, d.s, `{"seen":%d}`, d.next("session").N)
	got := map[string]string{}
	for range 5 {
		l := d.next("record")
		if l.Epoch <= first.Epoch {
			t.Fatalf("epoch %d after %d", l.Epoch, first.Epoch)
		}
		got[l.Key] += l.Value
		post(t, d.s, `{"seen":%d,"done":[%d]}`, l.N, l.N)
	}
	want := map[string]string{first.Key: "12", second.Key: "012"}
	if got["a"] != want["a"] || got["b"] != want["b"] {
		t.Fatalf("got %v; expected %v", got, want)
	}
}

func TestMemberSessionsShareAndHandOver(t *testing.T) {
	t.Parallel()
	rf, h := open(t, 2)
	a := read(t, h, remote.Params{Group: "g", Topic: "orders", Member: "a"})
	post(t, a.s, `{"seen":%d}`, a.next("session").N)
	a.next("assigned")
	a.next("assigned")
	b := read(t, h, remote.Params{Group: "g", Member: "b"})
	post(t, b.s, `{"seen":%d}`, b.next("session").N)
	revoke := a.next("revoke")
	revoked := a.next("revoked")
	if revoked.Partition != revoke.Partition || revoked.Epoch != revoke.Epoch || revoked.To != "b" {
		t.Fatalf("%+v after %+v", revoked, revoke)
	}
	if l := b.next("assigned"); l.Partition != revoke.Partition || l.Epoch <= revoke.Epoch || l.From != "a" {
		t.Fatalf("%+v after %+v", l, revoke)
	}
	again := read(t, h, remote.Params{Group: "g", Member: "b"})
	post(t, again.s, `{"seen":%d}`, again.next("session").N)
	if l := b.next("goodbye"); l.Why != "fenced" || l.RetryMS != 60000 {
		t.Fatalf("%+v; expected that the newer start has fenced it", l)
	}
	_ = rf
}

func TestMemberSessionIsRefusedForWhatIsNotThere(t *testing.T) {
	t.Parallel()
	_, h := open(t, 1)
	for _, p := range []remote.Params{{Group: "g"}, {Group: "g", Topic: "nope"}, {Subscription: "nope"}} {
		if _, err := h.Open(t.Context(), p); !errors.Is(err, ringfence.ErrNotFound) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for _, p := range []remote.Params{{}, {Group: "g", Subscription: "s"}, {Group: "g", Topic: "orders", Window: -1}, {Group: "g", Topic: "orders", TTL: 1}, {Group: "g", Topic: "orders", From: "then"}, {Group: "g", Topic: "orders", Member: "a/b"}} {
		if _, err := h.Open(t.Context(), p); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestPagedSessionReadsAgainWhatWasLost(t *testing.T) {
	t.Parallel()
	rf, h := open(t, 1)
	produce(t, rf, 1, "a", "b", "c")
	s, err := h.Open(t.Context(), remote.Params{Group: "g", Topic: "orders", Paged: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	page := func(after int64) []line {
		t.Helper()
		b, err := s.Page(ctx, after, s.Params().TTL/3)
		if err != nil {
			t.Fatal(err)
		}
		return parseAll(b)
	}
	after := page(0)[0].N
	var records []line
	for len(records) == 0 {
		lines := page(after)
		again := page(after)         // the first reply was lost
		if len(again) < len(lines) { // others may have come
			t.Fatalf("%+v, then %+v", lines, again)
		}
		for i, l := range lines {
			if l.N != again[i].N || l.Token != again[i].Token {
				t.Fatalf("%+v, then %+v", l, again[i])
			}
			if after = l.N; l.Type == "record" {
				records = append(records, l)
			}
		}
	}
	post(t, s, `{"seen":%d,"commit":%d}`, after, after)
	if refused := post(t, s, `{"seen":%d,"failed":[{"n":%d}]}`, after, records[0].N); refused[records[0].N] != "conflict" {
		t.Fatalf("%v", refused)
	}
	if err := s.Delete(); err != nil {
		t.Fatal(err)
	}
}

func TestMemberSessionLearnsOfASeek(t *testing.T) {
	t.Parallel()
	rf, h := open(t, 1)
	produce(t, rf, 3, "a")
	c := read(t, h, remote.Params{Group: "g", Topic: "orders"})
	post(t, c.s, `{"seen":%d}`, c.next("session").N)
	first := c.next("record")
	post(t, c.s, `{"seen":%d,"done":[%d]}`, first.N, first.N)
	out := c.next("record")
	if _, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekEarliest, nil); err != nil {
		t.Fatal(err)
	}
	if l := c.next("lost"); l.Epoch != out.Epoch || len(l.Records) != 1 || l.Records[0] != out.N {
		t.Fatalf("%+v; expected that line %d is lost", l, out.N)
	}
	assigned := c.next("assigned")
	if assigned.Epoch <= out.Epoch {
		t.Fatalf("%+v after epoch %d", assigned, out.Epoch)
	}
	if refused := post(t, c.s, `{"seen":%d,"done":[%d]}`, assigned.N, out.N); refused[out.N] != "fenced" {
		t.Fatalf("%v; expected that the answer counts for nothing", refused)
	}
	if again := c.next("record"); again.Value != "0" || again.Token <= out.Token {
		t.Fatalf("%+v; expected the first record under a token above %s", again, out.Token)
	}
}

func TestDrainThatTakesTooLongLosesThePartition(t *testing.T) {
	t.Parallel()
	rf, h := open(t, 1)
	produce(t, rf, 1, "a")
	a := read(t, h, remote.Params{Group: "g", Topic: "orders", Member: "a", Drain: time.Millisecond})
	post(t, a.s, `{"seen":%d}`, a.next("session").N)
	out := a.next("record")
	if err := rf.Admin().PauseGroup(t.Context(), "g", nil); err != nil { // the partition is to be given up, and the client is silent
		t.Fatal(err)
	}
	if l := a.next("revoke"); l.Epoch != out.Epoch {
		t.Fatalf("%+v", l)
	}
	if l := a.next("lost"); len(l.Records) != 1 || l.Records[0] != out.N {
		t.Fatalf("%+v", l)
	}
	if refused := post(t, a.s, `{"done":[%d]}`, out.N); refused[out.N] != "fenced" {
		t.Fatalf("%v", refused)
	}
	if err := rf.Admin().ResumeGroup(t.Context(), "g", nil); err != nil {
		t.Fatal(err)
	}
	if again := a.next("record"); again.Value != "0" || again.Token <= out.Token {
		t.Fatalf("%+v", again)
	}
}

func TestCloseLetsClientsFinish(t *testing.T) {
	t.Parallel()
	rf, h := open(t, 1)
	produce(t, rf, 2, "a", "b")
	subscribe(t, rf, 5)
	member := read(t, h, remote.Params{Group: "g", Topic: "orders", Drain: patience})
	worker := read(t, h, remote.Params{Subscription: "billing"})
	unheard := read(t, h, remote.Params{Group: "g", Topic: "orders"})
	var out []line
	for _, c := range []*stream{member, worker} {
		post(t, c.s, `{"seen":%d}`, c.next("session").N)
		out = append(out, c.next("record"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		h.Close(ctx)
	}()
	if l := unheard.next("goodbye"); l.Why != "draining" {
		t.Errorf("%+v", l)
	}
	for i, c := range []*stream{member, worker} {
		l := c.next("goodbye")
		if l.Why != "draining" || l.UntilMS == 0 {
			t.Errorf("%+v", l)
		}
		if refused := post(t, c.s, `{"seen":%d,"done":[%d]}`, l.N, out[i].N); len(refused) > 0 {
			t.Errorf("refused %v", refused)
		}
		c.mu.Lock()
		for _, l := range c.lines {
			if l.Type == "record" {
				t.Errorf("a record after the goodbye: %+v", l)
			}
		}
		c.mu.Unlock()
	}
	// What else was out before the goodbye is given back as soon as it is answered so.
	for _, c := range []*stream{member, worker} {
		if err := c.s.Delete(); err != nil && !errors.Is(err, ringfence.ErrNotFound) {
			t.Error(err)
		}
	}
	<-closed
	if _, err := h.Open(t.Context(), remote.Params{Group: "g"}); !errors.Is(err, ringfence.ErrUnavailable) {
		t.Errorf("a session after the close: %v", err)
	}
	g, err := rf.Admin().DescribeGroup(t.Context(), "g")
	if err != nil || g.Lag != 3 {
		t.Errorf("lag %d, %v; expected that one of four records is done", g.Lag, err)
	}
}
