package e2e_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
)

func TestEffectsInTheHandlersTransactionHappenOnceAndInOrder(t *testing.T) {
	t.Parallel()
	const messages, keys = 120, 10
	s, rf := newShop(t, 4, messages, keys)
	a := consume(t, rf, "orders", "g", s.handle, transactional("a"))
	eventually(t, "the first effects", func() bool { _, n := s.sold(t); return n >= messages/4 })
	b := consume(t, s.open(t), "orders", "g", s.handle, transactional("b"))
	eventually(t, "half of the effects", func() bool { _, n := s.sold(t); return n >= messages/2 })
	a.leave(t)
	s.await(t, rf)
	b.leave(t)
	s.exactly(t, messages, keys)
}

// faulty is a handler whose first attempt at each message goes wrong in one way.
func (s *shop) faulty(first func(*ringfence.Message, *sql.Tx) error) ringfence.Handler {
	var mu sync.Mutex
	tried := make(map[string]bool)
	return func(ctx context.Context, m *ringfence.Message) error {
		mu.Lock()
		again := tried[string(m.Value)]
		tried[string(m.Value)] = true
		mu.Unlock()
		if again {
			return s.handle(ctx, m)
		}
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := s.write(ctx, tx, m); err != nil {
			return err
		}
		if err := m.CommitIn(ctx, tx); err != nil {
			return err
		}
		return first(m, tx)
	}
}

func TestWhatIsRolledBackIsTriedAgainAndWhatIsCommittedIsNot(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(*ringfence.Message, *sql.Tx) error{
		"a handler that fails after CommitIn": func(*ringfence.Message, *sql.Tx) error {
			return errors.New("no")
		},
		"a commit whose answer was lost": func(_ *ringfence.Message, tx *sql.Tx) error {
			return errors.Join(tx.Commit(), errors.New("no answer"))
		},
		"a handler that commits and fails": func(_ *ringfence.Message, tx *sql.Tx) error {
			_ = tx.Commit()
			return errors.New("afterwards")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, rf := newShop(t, 2, 30, 3)
			c := consume(t, rf, "orders", "g", s.faulty(first), transactional("a"))
			s.await(t, rf)
			c.leave(t)
			s.exactly(t, 30, 3)
		})
	}
}

// A second CommitIn in one transaction meets what the first one wrote, which is rolled back with it.
func TestCommitInTwiceInOneTransactionLosesNothing(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "postgres", "mariadb"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			s, rf := newShopIn(t, store, 1, 10, 3)
			second := make(chan error, 10)
			twice := s.faulty(func(m *ringfence.Message, tx *sql.Tx) error {
				err := m.CommitIn(t.Context(), tx)
				second <- err
				return err
			})
			c := consume(t, rf, "orders", "g", func(ctx context.Context, m *ringfence.Message) error {
				if m.Offset%2 == 0 {
					return twice(ctx, m)
				}
				return s.handle(ctx, m)
			}, transactional("a"))
			s.await(t, rf)
			c.leave(t)
			s.exactly(t, 10, 3)
			if err := <-second; !errors.Is(err, ringfence.ErrExists) || !strings.Contains(err.Error(), "called before") {
				t.Errorf("the second CommitIn of one attempt: %v; expected ErrExists that says so", err)
			}
		})
	}
}

// A CommitIn that failed has written nothing, whatever its handler makes of that.
func TestACommitInThatFailedCountsForNothing(t *testing.T) {
	t.Parallel()
	s, rf := newShop(t, 1, 10, 3)
	var mu sync.Mutex
	tried := map[int64]int{}
	c := consume(t, rf, "orders", "g", func(ctx context.Context, m *ringfence.Message) error {
		mu.Lock()
		tried[m.Offset]++
		n := tried[m.Offset]
		mu.Unlock()
		if n > 1 {
			return s.handle(ctx, m)
		}
		if err := m.CommitIn(ctx, "no transaction"); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("without a transaction: %v", err)
		}
		return nil
	}, transactional("a"))
	s.await(t, rf)
	c.leave(t)
	s.exactly(t, 10, 3)
}

// A record that an earlier transaction committed is done: its handler's error does not bring it
// back a third time.
func TestWhatWasCommittedBeforeIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	s, rf := newShop(t, 1, 2, 1)
	attempts := make(chan int64, 100)
	lost := s.faulty(func(_ *ringfence.Message, tx *sql.Tx) error {
		return errors.Join(tx.Commit(), errors.New("no answer"))
	})
	c := consume(t, rf, "orders", "g", func(ctx context.Context, m *ringfence.Message) error {
		attempts <- m.Offset
		return lost(ctx, m)
	}, transactional("a"))
	for i, want := range []int64{0, 0, 1, 1} { // of one key: the next one comes when the first is done
		select {
		case got := <-attempts:
			if got != want {
				t.Fatalf("attempt %d is of record %d; expected %d", i, got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("attempt %d never comes", i)
		}
	}
	s.await(t, rf)
	c.leave(t)
	s.exactly(t, 2, 1)
}

func TestATransactionOfAStaleOwnerIsFenced(t *testing.T) {
	t.Parallel()
	for name, takeOver := range map[string]func(*testing.T, *shop, *ringfence.Client) *consumer{
		"after a takeover": func(t *testing.T, s *shop, _ *ringfence.Client) *consumer {
			next := consume(t, s.open(t), "orders", "g", s.handle, transactional("a")) // the newest start wins
			eventually(t, "the new owner's effect", func() bool { _, n := s.sold(t); return n == 1 })
			return next
		},
		"after a seek": func(t *testing.T, s *shop, rf *ringfence.Client) *consumer {
			_, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekEarliest, nil)
			must(t, err)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, rf := newShop(t, 1, 1, 1)
			begun, release, stale := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
			var once sync.Once
			old := consume(t, rf, "orders", "g", func(ctx context.Context, m *ringfence.Message) (err error) {
				first := false
				once.Do(func() { first = true })
				if !first {
					return s.handle(ctx, m)
				}
				begun <- struct{}{}
				<-release
				// It did not notice: its context would tell it, and so would the database's client.
				return s.sell(context.WithoutCancel(ctx), m, func(err error) error {
					stale <- err
					return err
				})
			}, transactional("a"))
			<-begun
			next := takeOver(t, s, rf)
			close(release)
			if err := <-stale; !errors.Is(err, ringfence.ErrFenced) {
				t.Errorf("CommitIn of the stale owner: %v; expected ErrFenced", err)
			}
			s.await(t, rf)
			if next != nil {
				if err := <-old.done; !errors.Is(err, ringfence.ErrFenced) {
					t.Errorf("the older start ended with %v; expected ErrFenced", err)
				}
				old = next
			}
			old.leave(t)
			s.exactly(t, 1, 1)
		})
	}
}

// A takeover has to wait for a transaction that has the fence in its hands.
func TestATransactionThatHoldsTheFenceIsNotOvertaken(t *testing.T) {
	t.Parallel()
	const messages = 5
	s, rf := newShop(t, 1, messages, 1)
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	old := consume(t, rf, "orders", "g", func(ctx context.Context, m *ringfence.Message) error {
		return s.sell(context.WithoutCancel(ctx), m, func(err error) error {
			once.Do(func() {
				close(held)
				<-release
			})
			return err
		})
	}, transactional("a"))
	<-held
	heir := s.open(t)
	next := consume(t, heir, "orders", "g", s.handle, transactional("a"))
	select {
	case <-time.After(100 * time.Millisecond): // for the heir to get as far as it can
	case err := <-next.done:
		t.Fatalf("the heir gave up: %v", err)
	}
	close(release)
	s.await(t, heir)
	if err := <-old.done; !errors.Is(err, ringfence.ErrFenced) {
		t.Errorf("the older start ended with %v; expected ErrFenced", err)
	}
	next.leave(t)
	s.exactly(t, messages, 1)
}

func TestASeekBackRepeatsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	const messages, keys = 20, 4
	s, rf := newShop(t, 2, messages, keys)
	c := consume(t, rf, "orders", "g", s.handle, transactional("a"))
	s.await(t, rf)
	s.exactly(t, messages, keys)
	_, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekEarliest, nil)
	must(t, err)
	eventually(t, "all effects once more", func() bool { _, n := s.sold(t); return n == 2*messages })
	s.await(t, rf)
	c.leave(t)
	byKey, _ := s.sold(t)
	for k, all := range byKey {
		if half := len(all) / 2; !slices.Equal(all[:half], all[half:]) {
			t.Errorf("key %s: %v; expected the same twice", k, all)
		}
	}
}

func TestATransactionalHandlerHasToCommit(t *testing.T) {
	t.Parallel()
	s, rf := newShop(t, 1, 1, 1)
	var mu sync.Mutex
	attempts := 0
	c := consume(t, rf, "orders", "g", func(ctx context.Context, m *ringfence.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if attempts = m.Attempt; attempts < 3 {
			return nil // it forgot
		}
		return s.handle(ctx, m)
	}, transactional("a"))
	s.await(t, rf)
	c.leave(t)
	s.exactly(t, 1, 1)
	mu.Lock()
	defer mu.Unlock()
	if attempts < 3 {
		t.Errorf("done at attempt %d without CommitIn", attempts)
	}
}

func TestCommitInWithoutWhatItNeedsIsInvalid(t *testing.T) {
	t.Parallel()
	s, rf := newShop(t, 1, 1, 1)
	try := func(group string, opts ringfence.ConsumeOptions, tx any) {
		t.Helper()
		got := make(chan error, 1)
		c := consume(t, rf, "orders", group, func(ctx context.Context, m *ringfence.Message) error {
			select {
			case got <- m.CommitIn(ctx, tx):
			default: // it was told before
			}
			return errors.New("no")
		}, opts)
		select {
		case err := <-got:
			if !errors.Is(err, ringfence.ErrInvalid) {
				t.Errorf("CommitIn with %T: %v; expected ErrInvalid", tx, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("no message")
		}
		c.leave(t)
	}
	try("database", transactional("a"), s.db)
	try("nothing", transactional("a"), nil)
	try("plain", ringfence.ConsumeOptions{}, new(sql.Tx))
	if err := new(ringfence.Message).CommitIn(t.Context(), new(sql.Tx)); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("a message of nobody: %v; expected ErrInvalid", err)
	}
	_, plain := newTopic(t, 1)
	opts := transactional("a")
	if err := plain.Consume(t.Context(), "orders", "g", s.handle, &opts); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("a registry without transactions: %v; expected ErrInvalid", err)
	}
}

func TestCommitInASecondTimeSaysThatItExists(t *testing.T) {
	t.Parallel()
	s, rf := newShop(t, 1, 1, 1)
	second := make(chan error, 1)
	c := consume(t, rf, "orders", "g", func(ctx context.Context, m *ringfence.Message) error {
		if err := s.handle(ctx, m); err != nil {
			return err
		}
		return s.sell(ctx, m, func(err error) error {
			second <- err
			return err
		})
	}, transactional("a"))
	select {
	case err := <-second:
		if !errors.Is(err, ringfence.ErrExists) {
			t.Errorf("the second CommitIn: %v; expected ErrExists", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the handler does not get so far")
	}
	s.await(t, rf)
	c.leave(t)
	s.exactly(t, 1, 1)
}

// A transactional handler may answer later: what counts then is what it has committed until it does.
func TestAnAnswerThatComesLaterCountsWithItsTransaction(t *testing.T) {
	t.Parallel()
	s, rf := newShop(t, 1, 10, 3)
	var mu sync.Mutex
	tried := map[int64]bool{}
	c := consume(t, rf, "orders", "g", func(ctx context.Context, m *ringfence.Message) error {
		mu.Lock()
		again := tried[m.Offset]
		tried[m.Offset] = true
		mu.Unlock()
		later := m.Later()
		go func() { // the consumer waits for its answer
			if !again {
				_ = later.Answer(nil) // nothing was committed: it is tried again
				return
			}
			_ = later.Answer(s.handle(ctx, m))
		}()
		return nil
	}, transactional("a"))
	s.await(t, rf)
	c.leave(t)
	s.exactly(t, 10, 3)
}
