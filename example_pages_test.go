package ringfence_test

import (
	"go.uber.org/goleak"

	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
)

// The code of README, as it stands there.
func readme(ctx context.Context, body []byte, charge func(ctx context.Context, key, value []byte) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM) // its end hands everything over
	defer stop()

	rf, err := ringfence.Open(ctx, ringfence.Config{Dir: "./data"})
	if err != nil {
		return err
	}
	defer rf.Close()

	if err := rf.EnsureTopic(ctx, "payments", ringfence.TopicConfig{Partitions: 8}); err != nil {
		return err
	}
	at, err := rf.Produce(ctx, "payments", ringfence.Message{Key: []byte("acct-42"), Value: body})
	if err != nil {
		return err
	}
	log.Printf("stored durably at partition %d offset %d", at.Partition, at.Offset)

	// Run this in as many processes as you like; they share the partitions.
	return rf.Consume(ctx, "payments", "billing", func(ctx context.Context, m *ringfence.Message) error {
		return charge(ctx, m.Key, m.Value) // nil: done; an error: again, in order, after a pause
	}, nil)
}

func TestTheCodeOfREADMEConsumesWhatItProduces(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	calls := 0
	err := readme(ctx, []byte("debit 10"), func(_ context.Context, key, value []byte) error {
		if calls++; calls == 1 {
			return errors.New("try again")
		}
		if got := fmt.Sprintf("%s: %s", key, value); got != "acct-42: debit 10" {
			t.Errorf("got %q; want acct-42: debit 10", got)
		}
		cancel()
		return nil
	})
	if err != nil || calls != 2 {
		t.Errorf("ended with %v after %d calls of the handler; want nil after 2", err, calls)
	}
}

// The code of docs/guide/ring.md, as it stands there.
func webhook(ctx context.Context, rf *ringfence.Client, event string, handle func(event string, epoch int64)) error {
	r, err := rf.JoinRing(ctx, "webhooks", &ringfence.RingOptions{Member: "web-1"})
	if err != nil {
		return err
	}
	defer r.Close(ctx) // drains; the others are told

	if err := r.WaitEstablished(ctx); err != nil {
		return err
	}
	if mine, epoch := r.ShouldHandle("user-123"); mine {
		handle(event, epoch)
	}
	return nil
}

func TestTheCodeOfTheGuideToRingsHandlesItsKey(t *testing.T) {
	t.Parallel()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		t.Fatal(err)
	}
	defer rf.Close()
	handled, under := "", int64(0)
	err = webhook(t.Context(), rf, "paid", func(event string, epoch int64) { handled, under = event, epoch })
	if err != nil || handled != "paid" || under < 1 {
		t.Errorf("handled %q under epoch %d, %v; want paid, and an epoch", handled, under, err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
