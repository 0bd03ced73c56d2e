package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// tallies is what consumers saw: of each key, numbers from 0 in order, each once.
type tallies struct {
	mu     sync.Mutex
	next   map[string]int
	errs   []string
	total  int
	change chan struct{}     // closed and replaced at each record
	rf     *ringfence.Client // to describe what is missing; nil: nothing
}

func newTallies() *tallies {
	return &tallies{next: map[string]int{}, change: make(chan struct{})}
}

func (l *tallies) handle(_ context.Context, m *ringfence.Message) error {
	n, err := strconv.Atoi(string(m.Value))
	l.mu.Lock()
	defer l.mu.Unlock()
	if want := l.next[string(m.Key)]; n != want {
		l.errs = append(l.errs, fmt.Sprintf("key %s: got %d (storage %d partition %d offset %d), expected %d", m.Key, n, m.Storage, m.Partition, m.Offset, want))
	}
	l.next[string(m.Key)] = n + 1
	l.total++
	close(l.change)
	l.change = make(chan struct{})
	return err
}

// wait waits until so many records were seen.
func (l *tallies) wait(t *testing.T, total int) {
	t.Helper()
	timeout := time.After(60 * time.Second)
	for {
		l.mu.Lock()
		have, change, errs := l.total, l.change, l.errs
		l.mu.Unlock()
		if len(errs) > 0 {
			t.Fatalf("%d records, disorder: %s", have, errs[0])
		}
		if have >= total {
			return
		}
		select {
		case <-change:
		case <-timeout:
			t.Errorf("waited for %d records, got %d", total, have)
			if l.rf != nil {
				info, err := l.rf.Admin().DescribeGroup(t.Context(), "g")
				t.Logf("lag %d, assignment %+v, %v", info.Lag, info.Assignment, err)
				for _, u := range info.Units {
					t.Logf("%+v", u)
				}
			}
			t.FailNow()
		}
	}
}

// count is how many records were seen.
func (l *tallies) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// waitMore waits until so many more records were seen than now.
func (l *tallies) waitMore(t *testing.T, n int) {
	t.Helper()
	l.wait(t, l.count()+n)
}

// member consumes until it is stopped.
func (l *tallies) member(t *testing.T, rf *ringfence.Client, id string) (stop func()) {
	t.Helper()
	return l.memberWith(t, rf, id, l.handle)
}

func (l *tallies) memberWith(t *testing.T, rf *ringfence.Client, id string, handle ringfence.Handler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { // joined by stop
		done <- rf.Consume(ctx, "a", "g", handle, &ringfence.ConsumeOptions{
			Member: id, CommitInterval: 5 * time.Millisecond,
			SessionTTL: time.Minute, // nobody dies here: who only waits for a processor repeats nothing
		})
	}()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// source numbers the records of each key.
type source struct{ sent int }

const growKeys = 30

// send produces the next number of every key, rounds times, without waiting for each.
func (s *source) send(t *testing.T, rf *ringfence.Client, rounds int) {
	t.Helper()
	var acks sync.WaitGroup
	for range rounds {
		for k := range growKeys {
			acks.Add(1)
			m := ringfence.Message{Key: fmt.Appendf(nil, "k%d", k), Value: fmt.Append(nil, s.sent)}
			rf.ProduceAsync(t.Context(), "a", m, nil, func(_ ringfence.Position, err error) {
				if err != nil {
					t.Error(err)
				}
				acks.Done()
			})
		}
		s.sent++
	}
	acks.Wait()
}

// Topics grow while they are produced to and consumed, by fewer members than partitions and by more.
func TestAGrowingTopicIsConsumedInOrder(t *testing.T) {
	t.Parallel()
	for _, counts := range [][]int{{7, 10}, {2, 10, 20}, {4, 8, 24}, {10, 3, 5}} {
		for _, router := range []string{"modulo", "range"} {
			for _, members := range []int{1, 3, 12} {
				t.Run(fmt.Sprint(counts, router, members), func(t *testing.T) {
					t.Parallel()
					growConsumed(t, counts, router, members)
				})
			}
		}
	}
}

func growConsumed(t *testing.T, counts []int, router string, members int) {
	s, l := newStores(), newTallies()
	rf, other := s.open(t), s.open(t)
	l.rf = rf
	must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: counts[0], Router: api.Router(router)}))
	var src source
	src.send(t, rf, 5)
	for i := range members {
		defer l.member(t, s.open(t), fmt.Sprintf("m%d", i))()
	}
	l.wait(t, growKeys) // the group is at work
	for i, partitions := range counts[1:] {
		src.send(t, rf, 10)
		grow(t, other, partitions) // from another process; the producer does not know
		src.send(t, rf, 10)
		if i == 0 {
			l.wait(t, growKeys*src.sent)
		}
	}
	l.wait(t, growKeys*src.sent)
	finished(t, rf, counts)
}

// finished waits until all but the last storage topic is finished, by what the group's description
// says, and checks that everything is balanced and has no lag.
func finished(t *testing.T, rf *ringfence.Client, counts []int) {
	t.Helper()
	timeout := time.After(60 * time.Second)
	for {
		info, err := rf.Admin().DescribeGroup(t.Context(), "g")
		must(t, err)
		open, wrong := 0, ""
		for _, u := range info.Units {
			last := u.Positions[0].Storage == len(counts)-1
			if last {
				open++
			}
			if last == (u.Phase == "finished") || last && u.Phase != "owned" || !last && u.Owner != "" || u.Lag != 0 {
				wrong = fmt.Sprintf("%+v", u)
			}
		}
		for _, m := range info.Members {
			if least := open / len(info.Members); m.Units < least || m.Units > least+1 {
				wrong = fmt.Sprintf("member %s has %d of %d", m.ID, m.Units, open)
			}
		}
		if wrong == "" && info.Lag == 0 {
			return
		}
		select {
		case <-timeout:
			t.Fatalf("the group does not come to rest: %s", wrong)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// What a group reads from "latest" on it reads from the beginning in storage topics that came later.
func TestLatestIsOnlyForWhatTheGroupFound(t *testing.T) {
	t.Parallel()
	s, l := newStores(), newTallies()
	rf := s.open(t)
	must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 2}))
	var src source
	src.send(t, rf, 3)
	for k := range growKeys {
		l.next[fmt.Sprintf("k%d", k)] = 3
	}
	latest := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		started := make(chan struct{}, 1)
		event := func() {
			select {
			case started <- struct{}{}:
			default: // one is enough, and events must not block
			}
		}
		go func() { // joined by stop
			done <- rf.Consume(ctx, "a", "g", l.handle, &ringfence.ConsumeOptions{
				From: ringfence.Latest, CommitInterval: 5 * time.Millisecond,
				Events: ringfence.Events{Committed: func(int, int64) { event() }, Assigned: func(int, int64, string, string) { event() }},
			})
		}()
		<-started
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	stop := latest()
	// Both partitions must have their start before more is produced.
	for {
		info, err := rf.Admin().DescribeGroup(t.Context(), "g")
		must(t, err)
		if info.Units[0].Positions[0].Checkpoint >= 0 && info.Units[1].Positions[0].Checkpoint >= 0 {
			break
		}
		<-time.After(time.Millisecond)
	}
	stop()
	src.send(t, rf, 1)
	grow(t, rf, 4)
	src.send(t, rf, 2)
	stop = latest()
	l.wait(t, 3*growKeys)
	stop()
}

// A seek to an earlier storage topic sends what came later back as well, and in order.
func TestASeekAcrossStorageTopicsRepeatsInOrder(t *testing.T) {
	t.Parallel()
	s, l := newStores(), newTallies()
	rf := s.open(t)
	must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 2}))
	var src source
	src.send(t, rf, 5)
	grow(t, rf, 4)
	src.send(t, rf, 5)
	grow(t, rf, 8)
	src.send(t, rf, 5)
	stop := l.member(t, s.open(t), "m")
	l.wait(t, 15*growKeys)
	finished(t, rf, []int{2, 4, 8})
	if _, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekOffset(0), nil); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("an offset without a storage topic: %v; expected Invalid", err)
	}
	for k := range growKeys {
		l.next[fmt.Sprintf("k%d", k)] = 0
	}
	first := 0
	moved, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekOffset(0), &admin.SeekGroupOptions{Storage: &first})
	if err != nil || len(moved.Positions) != 14 {
		t.Fatalf("%+v, %v; expected 14 partitions, as those of later storage topics follow", moved, err)
	}
	l.wait(t, 30*growKeys)
	finished(t, rf, []int{2, 4, 8})
	stop()
}

// A unit may be at work, and have stored nothing yet, when those before it are sent back. The seek fences its owner: it
// hands nothing valid out below the tokens of what comes again, however late it hears of the seek.
func TestSeekFencesAUnitWithoutACheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rf := newStores().open(t)
		must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 1}))
		produce(t, rf, "a", 0, 1, 1)
		grow(t, rf, 1)
		produce(t, rf, "a", 1, 1, 1)
		var mu sync.Mutex
		var got []string
		begun := make(chan struct{})
		c := consume(t, rf, "a", "g", func(ctx context.Context, m *ringfence.Message) error {
			mu.Lock()
			got = append(got, m.Token()+" "+string(m.Value))
			last := len(got)
			mu.Unlock()
			if last == 2 {
				close(begun)
				<-ctx.Done()
			}
			return ctx.Err()
		}, ringfence.ConsumeOptions{CommitInterval: 10 * time.Second})
		<-begun
		epoch := func() int64 {
			g, err := rf.Admin().DescribeGroup(t.Context(), "g")
			must(t, err)
			return g.Units[1].Epoch
		}
		before, first := epoch(), 0
		_, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekEarliest, &admin.SeekGroupOptions{Storage: &first})
		must(t, err)
		if now := epoch(); now <= before {
			t.Errorf("its owner goes on in epoch %d; expected a later one than %d", now, before)
		}
		time.Sleep(time.Minute)
		c.leave(t)
		values := ""
		for i, at := range got {
			values += at[len(at)-1:]
			if i > 0 && at <= got[i-1] {
				t.Errorf("%s follows %s", at, got[i-1])
			}
		}
		if values != "0101" {
			t.Errorf("records came as %s; expected 0101", values)
		}
	})
}
