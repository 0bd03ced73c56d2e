// Command bank moves money between accounts with several worker processes, kills them with
// kill -9 all the time, and shows that every transfer happened exactly once: the balances are in a
// database that also holds the registry, and each worker commits the checkpoint of a transfer in the
// transaction that moves the money. It goes on by itself when the database was restarted meanwhile.
//
//	go run ./examples/bank
//	go run ./examples/bank -registry postgres://localhost/bank
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backends"
)

const (
	topic    = "transfers"
	group    = "bank"
	balance  = 1000 // of each account at first
	registry = "BANK_REGISTRY"
)

// transfer is a message: so much from one account to another.
type transfer struct {
	From   int   `json:"from"`
	To     int   `json:"to"`
	Amount int64 `json:"amount"`
}

type step struct {
	account int
	amount  int64
}

// steps are what a transfer does, in the order of the accounts: transactions that lock rows in
// one order don't wait for each other in a circle.
func (t transfer) steps() []step {
	s := []step{{t.From, -t.Amount}, {t.To, t.Amount}}
	if t.To < t.From {
		slices.Reverse(s)
	}
	return s
}

// config is the configuration of the bank.
type config struct {
	registry  string // URL
	namespace string
	dir       string
	accounts  int
	transfers int
	workers   int
	kills     int

	harm func(lag int64) (over bool) // tests hurt the database with it, before each look at what is left; or nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := bank(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bank:", err)
		os.Exit(1)
	}
}

// bank reads the command line and does what it says.
func bank(ctx context.Context) error {
	var c config
	flag.StringVar(&c.registry, "registry", "", "`URL` of the database: postgres:, mysql: or sqlite: (default: a file of SQLite)")
	flag.IntVar(&c.accounts, "accounts", 20, "number of accounts")
	flag.IntVar(&c.transfers, "transfers", 5000, "number of transfers")
	flag.IntVar(&c.workers, "workers", 3, "worker processes")
	flag.IntVar(&c.kills, "kills", 15, "how many of them to kill, one after another")
	flag.Parse()
	if flag.NArg() == 3 && flag.Arg(0) == "work" {
		c.registry, c.dir, c.namespace = os.Getenv(registry), flag.Arg(1), flag.Arg(2)
		return work(ctx, c)
	}
	return c.run(ctx)
}

// run is the whole story.
func (c config) run(ctx context.Context) (err error) {
	if c.accounts < 2 || c.workers < 1 || c.transfers < 1 {
		return errors.New("expected at least two accounts, one worker and one transfer")
	}
	if c.dir, err = os.MkdirTemp("", "bank-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	if c.registry == "" {
		c.registry = (&url.URL{Scheme: "sqlite", Path: filepath.Join(c.dir, "bank.db")}).String()
	}
	c.namespace = "bank-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	book, err := openLedger(c.registry)
	if err != nil {
		return err
	}
	defer func() { _ = book.Close() }()
	if err := book.create(ctx, c.accounts, balance); err != nil {
		return fmt.Errorf("table bank_accounts, which must not exist yet: %w", err)
	}
	defer func() { err = errors.Join(err, book.drop(context.WithoutCancel(ctx))) }()
	rf, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.clean(context.WithoutCancel(ctx), rf), rf.Close()) }()
	want, err := c.order(ctx, rf)
	if err != nil {
		return err
	}
	killed, err := c.drive(ctx, rf)
	if err != nil {
		return err
	}
	var have []int64
	err = patiently(ctx, func() (err error) {
		have, err = book.balances(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if !slices.Equal(have, want) {
		return fmt.Errorf("the balances are %v; expected %v", have, want)
	}
	fmt.Printf("%d transfers by %d workers, %d of them killed with kill -9: every balance is exact.\n", c.transfers, c.workers, killed)
	return nil
}

func (c config) open(ctx context.Context) (*ringfence.Client, error) {
	return ringfence.Open(ctx, ringfence.Config{
		Dir: c.dir, Registry: c.registry, Namespace: c.namespace, Durability: ringfence.OS,
		Backends: backends.All(),
	})
}

// clean removes the group and the topic from the registry, which others may use too.
func (c config) clean(ctx context.Context, rf *ringfence.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for { // the workers that were killed last are still members for a moment
		err := rf.Admin().DeleteGroup(ctx, group, nil)
		if err == nil || errors.Is(err, ringfence.ErrNotFound) {
			break
		}
		if !errors.Is(err, ringfence.ErrConflict) && !away(err) || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return patiently(ctx, func() error {
		err := rf.Admin().DeleteTopic(ctx, topic, nil)
		if errors.Is(err, ringfence.ErrNotFound) {
			return nil
		}
		return err
	})
}

// order produces the transfers and says what the balances are to be.
func (c config) order(ctx context.Context, rf *ringfence.Client) ([]int64, error) {
	if err := rf.EnsureTopic(ctx, topic, ringfence.TopicConfig{Partitions: 8}); err != nil {
		return nil, err
	}
	want := slices.Repeat([]int64{balance}, c.accounts)
	for range c.transfers {
		t := transfer{From: rand.IntN(c.accounts), Amount: rand.Int64N(100)}
		t.To = (t.From + 1 + rand.IntN(c.accounts-1)) % c.accounts
		for _, s := range t.steps() {
			want[s.account] += s.amount
		}
		value, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		if _, err := rf.Produce(ctx, topic, ringfence.Message{Key: []byte(strconv.Itoa(t.From)), Value: value}); err != nil {
			return nil, err
		}
	}
	return want, nil
}

// drive keeps the workers running, kills one after another, and returns when nothing is left to do.
func (c config) drive(ctx context.Context, rf *ringfence.Client) (killed int, err error) {
	workers := make([]*exec.Cmd, c.workers)
	defer func() {
		for _, w := range workers {
			if w != nil {
				_ = w.Process.Kill() // it has nothing left to do
				_ = w.Wait()
			}
		}
	}()
	for i := range workers {
		if workers[i], err = c.start(); err != nil {
			return killed, err
		}
	}
	lag := int64(c.transfers)
	for ctx.Err() == nil {
		time.Sleep(100*time.Millisecond + rand.N(200*time.Millisecond))
		over := c.harm == nil || c.harm(lag)
		look, cancel := context.WithTimeout(ctx, 2*time.Second)
		g, err := rf.Admin().DescribeGroup(look, group)
		cancel()
		if err == nil {
			lag = g.Lag
		}
		switch {
		case err != nil && !errors.Is(err, ringfence.ErrNotFound) && !away(err): // no worker has joined yet
			return killed, err
		case killed < c.kills:
		case err == nil && lag == 0 && over:
			return killed, nil
		default:
			continue
		}
		i := rand.IntN(len(workers))
		if err := workers[i].Process.Kill(); err != nil {
			return killed, fmt.Errorf("a worker ended by itself: %w", err)
		}
		_ = workers[i].Wait() // killed
		killed++
		if workers[i], err = c.start(); err != nil {
			return killed, err
		}
	}
	return killed, ctx.Err()
}

// start starts this program as a worker. The URL may hold a password, so it is not an argument.
func (c config) start() (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := exec.Command(self, "work", c.dir, c.namespace)
	w.Env = append(os.Environ(), registry+"="+c.registry)
	w.Stderr = os.Stderr
	err = w.Start()
	return w, err
}

// away says that the database did not answer: it is restarted, perhaps.
func away(err error) bool {
	return errors.Is(err, ringfence.ErrUnavailable) || errors.Is(err, ringfence.ErrUnknown) || errors.Is(err, context.DeadlineExceeded)
}

// patiently tries for a minute, for a database that is restarted.
func patiently(ctx context.Context, try func() error) error {
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if err := try(); err == nil || ctx.Err() != nil || time.Since(began) > time.Minute {
			return err
		}
	}
}

// work is a worker process. A consumer lives through a restart of its store, and needs it only to
// begin: then it waits.
func work(ctx context.Context, c config) error {
	for {
		err := c.consume(ctx)
		if !away(err) || ctx.Err() != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "bank: a worker waits for the database:", err)
		time.Sleep(200 * time.Millisecond)
	}
}

func (c config) consume(ctx context.Context) (err error) {
	book, err := openLedger(c.registry)
	if err != nil {
		return err
	}
	defer func() { _ = book.Close() }()
	rf, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rf.Close()) }()
	return rf.Consume(ctx, topic, group, func(ctx context.Context, m *ringfence.Message) error {
		var t transfer
		if err := json.Unmarshal(m.Value, &t); err != nil {
			return err
		}
		return book.move(ctx, m, t)
	}, &ringfence.ConsumeOptions{Transactional: true, SessionTTL: 2 * time.Second, Retry: ringfence.Retry{Initial: 5 * time.Millisecond}})
}
