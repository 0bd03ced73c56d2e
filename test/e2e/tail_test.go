package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
)

var errSeenEnough = errors.New("seen enough")

// look tails until n records were shown, or it ends by itself.
func look(t *testing.T, rf *ringfence.Client, topic string, n int, opts *ringfence.TailOptions) (seen []*ringfence.Message, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = rf.Tail(ctx, topic, func(_ context.Context, m *ringfence.Message) error {
		seen = append(seen, m)
		if len(seen) == n {
			return errSeenEnough
		}
		return nil
	}, opts)
	return seen, err
}

func wantValues(t *testing.T, what string, seen []*ringfence.Message, err, wantErr error, want ...int) {
	t.Helper()
	got := []int{}
	for _, m := range seen {
		n, _ := strconv.Atoi(string(m.Value))
		got = append(got, n)
	}
	if !slices.Equal(got, want) || !errors.Is(err, wantErr) {
		t.Errorf("%s: shown %v, %v; expected %v, %v", what, got, err, want, wantErr)
	}
}

func TestTailBeginsWhereItIsTold(t *testing.T) {
	t.Parallel()
	_, rf := newTopic(t, 1)
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 10 {
		m := ringfence.Message{Value: fmt.Append(nil, i), Timestamp: day.Add(time.Duration(i) * time.Hour), Headers: []ringfence.Header{{Name: "h", Value: []byte("v")}}}
		if i%3 == 0 {
			m.Key = []byte("third")
		}
		_, err := rf.Produce(t.Context(), "orders", m)
		must(t, err)
	}
	for _, c := range []struct {
		what string
		opts *ringfence.TailOptions
		want []int
	}{
		{"from the beginning", nil, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"from an offset", &ringfence.TailOptions{From: ringfence.SeekOffset(7)}, []int{7, 8, 9}},
		{"from a time", &ringfence.TailOptions{From: ringfence.SeekTime(day.Add(5 * time.Hour))}, []int{5, 6, 7, 8, 9}},
		{"of one key", &ringfence.TailOptions{Key: []byte("third")}, []int{0, 3, 6, 9}},
		{"of one key, from an offset, in a partition", &ringfence.TailOptions{Key: []byte("third"), From: ringfence.SeekOffset(1), Partitions: []int{0}}, []int{3, 6, 9}},
	} {
		seen, err := look(t, rf, "orders", len(c.want), c.opts)
		wantValues(t, c.what, seen, err, errSeenEnough, c.want...)
	}
	seen, err := look(t, rf, "orders", 1, nil)
	if err == nil || len(seen) != 1 {
		t.Fatal(seen, err)
	}
	if m := seen[0]; m.Topic != "orders" || m.Offset != 0 || m.Epoch != 0 || string(m.Key) != "third" || !m.Timestamp.Equal(day) || len(m.Headers) != 1 {
		t.Errorf("the first record is shown as %+v", m)
	}
	if groups, err := rf.Admin().ListGroups(t.Context()); err != nil || len(groups) != 0 {
		t.Errorf("looking left groups behind: %v, %v", groups, err)
	}
}

func TestTailFromTheEndShowsWhatComesThen(t *testing.T) {
	t.Parallel()
	_, rf := newTopic(t, 3)
	produce(t, rf, "orders", 0, 50, 7)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fed := make(chan struct{})
	next := 50
	var missed error
	seen := map[string]int{}
	go func() { // joined below
		defer close(fed)
		// Whether Tail has looked for the end yet can't be seen from here: it is fed until it shows something.
		for i := next; ctx.Err() == nil; i++ {
			m := ringfence.Message{Key: fmt.Appendf(nil, "k%d", i%7), Value: fmt.Append(nil, i)}
			if _, err := rf.Produce(ctx, "orders", m); err != nil {
				if ctx.Err() == nil {
					missed = err
				}
				return
			}
		}
	}()
	err := rf.Tail(ctx, "orders", func(_ context.Context, m *ringfence.Message) error {
		n, _ := strconv.Atoi(string(m.Value))
		if last, ok := seen[string(m.Key)]; n < next || ok && n != last+7 {
			return fmt.Errorf("%d of key %s is shown after %d", n, m.Key, last)
		}
		seen[string(m.Key)] = n
		if len(seen) == 7 && n > next+200 {
			return errSeenEnough
		}
		return nil
	}, &ringfence.TailOptions{From: ringfence.SeekLatest})
	cancel()
	<-fed
	if !errors.Is(err, errSeenEnough) || missed != nil {
		t.Error(err, missed)
	}
}

// A topic that grows is shown in the order of its keys, as long as somebody looks.
func TestTailFollowsATopicThatGrows(t *testing.T) {
	t.Parallel()
	_, rf := newTopic(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	last := map[string]int{}
	storages := map[int]int{}
	n := 0
	feed := func(from int) error {
		for i := from; i < from+100; i++ {
			m := ringfence.Message{Key: fmt.Appendf(nil, "k%d", i%10), Value: fmt.Append(nil, i)}
			if _, err := rf.Produce(ctx, "orders", m); err != nil {
				return err
			}
		}
		return nil
	}
	must(t, feed(0))
	err := rf.Tail(ctx, "orders", func(_ context.Context, m *ringfence.Message) error {
		v, _ := strconv.Atoi(string(m.Value))
		if was, ok := last[string(m.Key)]; ok && v != was+10 {
			return fmt.Errorf("%d of key %s is shown after %d", v, m.Key, was)
		}
		last[string(m.Key)] = v
		storages[m.Storage]++
		switch n++; n {
		case 100, 200: // it has shown everything there is
			if _, err := rf.Admin().AddStorage(ctx, "orders", n/20); err != nil {
				return err
			}
			if _, err := rf.Admin().SwitchProduce(ctx, "orders"); err != nil {
				return err
			}
			return feed(n)
		case 300:
			return errSeenEnough
		}
		return nil
	}, nil)
	if !errors.Is(err, errSeenEnough) || storages[0] != 100 || storages[1] != 100 || storages[2] != 100 {
		t.Fatalf("%v; records by storage topic: %v", err, storages)
	}
	one := 1
	seen, err := look(t, rf, "orders", 1000, &ringfence.TailOptions{Storage: &one})
	if err != nil || len(seen) != 100 {
		t.Errorf("%d records of a sealed storage topic, then %v; expected 100, and the end", len(seen), err)
	}
	seen, err = look(t, rf, "orders", 1000, &ringfence.TailOptions{Partitions: []int{0, 1}})
	if err != nil || len(seen) != 100 {
		t.Errorf("%d records of sealed partitions, then %v; expected 100, and the end", len(seen), err)
	}
	if _, err := look(t, rf, "orders", 1, &ringfence.TailOptions{From: ringfence.SeekOffset(3)}); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("an offset in several storage topics: %v", err)
	}
}

func TestTailOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 1)
	other := s.open(t)
	produce(t, rf, "orders", 0, 5, 1)
	if _, err := look(t, rf, "nothing", 1, nil); !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("an unknown topic: %v", err)
	}
	if _, err := look(t, rf, "orders", 1, &ringfence.TailOptions{Partitions: []int{1}}); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("an unknown partition: %v", err)
	}
	if _, err := look(t, rf, "orders", 1, &ringfence.TailOptions{From: ringfence.SeekOffset(6)}); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("an offset that is not there: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := rf.Tail(ctx, "orders", func(context.Context, *ringfence.Message) error {
		cancel(errSeenEnough)
		return nil
	}, nil)
	if !errors.Is(err, errSeenEnough) {
		t.Errorf("a context that ended for a reason: %v", err)
	}
	err = rf.Tail(t.Context(), "orders", func(ctx context.Context, m *ringfence.Message) error {
		if m.Offset == 4 {
			return other.Admin().DeleteTopic(ctx, "orders", nil)
		}
		return nil
	}, nil)
	if !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("a topic that is deleted: %v", err)
	}
}
