package remote_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/remote"
)

func subscribe(t *testing.T, rf *ringfence.Client, attempts int) {
	t.Helper()
	_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{
		Topic: "orders", From: ringfence.Earliest, Retry: admin.Retry{Attempts: attempts, Initial: time.Millisecond, Max: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// work answers each record of a session as f says, until it is over.
func work(c *stream, got chan<- line, f func(line) string) {
	for {
		c.mu.Lock()
		for len(c.lines) == 0 && !c.ended {
			c.more.Wait()
		}
		lines := c.lines
		c.lines = nil
		ended := c.ended
		c.mu.Unlock()
		for _, l := range lines {
			body := `{"seen":` + strconv.FormatInt(l.N, 10)
			if l.Type == "record" {
				got <- l
				body += "," + f(l)
			}
			if _, err := c.s.Answer([]byte(body + "}")); err != nil && !errors.Is(err, ringfence.ErrNotFound) {
				c.t.Error(err)
			}
		}
		if ended {
			return
		}
	}
}

func done(l line) string { return `"done":[` + strconv.FormatInt(l.N, 10) + `]` }

func TestWorkersShareKeysInOrder(t *testing.T) {
	t.Parallel()
	rf, h := open(t, 1) // one shard, three workers
	produce(t, rf, 40, "a", "b", "c", "d", "e", "f")
	subscribe(t, rf, 5)
	got := make(chan line, 1000)
	for range 3 {
		c := read(t, h, remote.Params{Subscription: "billing", Window: 2})
		go work(c, got, done)
	}
	next, tokens := map[string]int{}, map[string]string{}
	for range 240 {
		l := <-got
		if l.Value != strconv.Itoa(next[l.Key]) || l.Token <= tokens[l.Key] {
			t.Fatalf("key %s: value %s token %s; expected %d above token %s", l.Key, l.Value, l.Token, next[l.Key], tokens[l.Key])
		}
		next[l.Key]++
		tokens[l.Key] = l.Token
	}
}

func TestWorkerThatDiesOfARecordMakesItADeadLetter(t *testing.T) {
	t.Parallel()
	rf, h := open(t, 1)
	produce(t, rf, 1, "poison", "good", "better", "best")
	subscribe(t, rf, 3)
	handled := map[string]int{}
	for deaths := 0; deaths < 3; {
		c := read(t, h, remote.Params{Subscription: "billing", Window: 3})
		post(t, c.s, `{"seen":%d}`, c.next("session").N)
		for {
			l := c.next("record")
			if l.Key == "poison" {
				deaths++
				break
			}
			handled[l.Key]++
			post(t, c.s, `{"seen":%d,"done":[%d]}`, l.N, l.N)
		}
		c.cut()
		<-c.over
	}
	for {
		letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(letters) == 0 {
			time.Sleep(10 * time.Millisecond) // until the letter is stored
			continue
		}
		if len(letters) != 1 || letters[0].Key == nil || *letters[0].Key != "poison" || letters[0].Attempts != 3 {
			t.Fatalf("%+v", letters)
		}
		break
	}
}

func TestWorkerSaysWhatIsPermanent(t *testing.T) {
	t.Parallel()
	rf, h := open(t, 2)
	produce(t, rf, 1, "a", "b")
	subscribe(t, rf, 5)
	c := read(t, h, remote.Params{Subscription: "billing"})
	got := make(chan line, 100)
	go work(c, got, func(l line) string {
		if l.Key == "a" {
			return `"failed":[{"n":` + strconv.FormatInt(l.N, 10) + `,"error":"no such account","permanent":true}]`
		}
		return done(l)
	})
	<-got
	<-got
	for {
		letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(letters) == 1 && *letters[0].Key == "a" {
			return
		}
		time.Sleep(10 * time.Millisecond) // until the letter is stored
	}
}

func TestWorkersEndWithTheirSubscription(t *testing.T) {
	t.Parallel()
	rf, h := open(t, 1)
	subscribe(t, rf, 5)
	c := read(t, h, remote.Params{Subscription: "billing"})
	post(t, c.s, `{"seen":%d}`, c.next("session").N)
	if err := rf.Admin().DeleteSubscription(t.Context(), "billing", &admin.DeleteSubscriptionOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if l := c.next("goodbye"); l.Why != "deleted" {
		t.Fatalf("%+v", l)
	}
	if _, err := h.Open(t.Context(), remote.Params{Subscription: "billing"}); !errors.Is(err, ringfence.ErrNotFound) {
		t.Fatal(err)
	}
}
