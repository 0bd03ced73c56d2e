package verify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/history"
)

// What a process does that delivers the subscription of a run. Its handler appends each record to one file of all
// processes before it says that it has taken it: so the file has their order. A tenth of the attempts fail, and one
// record of each poisoned key, until the run says that it is mended.

const (
	takenFile  = "taken"  // in the directory of the histories
	mendedFile = "mended" // the poison is taken once that is there

	poisonEvery  = 50 // of so many keys of a producer one is poisoned
	poisonNumber = 5  // the record of it that is
	tries        = 8  // hiccup fails one of ten in a row
	firstPause   = 20 * time.Millisecond
)

// poisoned says whether a record of a key fails for good: keys of producers end in their number.
func poisoned(key string) bool {
	i, err := strconv.Atoi(key[strings.LastIndexByte(key, '/')+1:])
	return err == nil && i%poisonEvery == 0
}

// hiccup says whether an attempt is one of the tenth that fail: of ten in a row at one record, one is.
func hiccup(key string, n int64, attempt int) bool {
	return (xxhash.Sum64String(key)+uint64(n)+uint64(attempt))%10 == 0 //nolint:gosec // any numbers do
}

var (
	errPoison = errors.New("the poison")
	errHiccup = errors.New("a hiccup")
)

// deliver takes records of the subscription until ctx ends. wrap, which may be nil, is around the handler.
func deliver(ctx context.Context, s Spec, rf *ringfence.Client, logger *slog.Logger, wrap func(ringfence.Handler) ringfence.Handler) (err error) {
	file, err := s.openTaken()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if logger != nil {
		logger.Info("delivers", "subscription", s.Group)
	}
	h := func(ctx context.Context, m *ringfence.Message) error { return s.take(ctx, m, file) }
	if wrap != nil {
		h = wrap(h)
	}
	return rf.Subscribe(ctx, s.Group, h, &ringfence.SubscribeOptions{
		Member: s.Name, SessionTTL: s.TTL, Concurrency: 8, DrainTimeout: 5 * time.Second,
	})
}

// take is the handler.
func (s *Spec) take(ctx context.Context, m *ringfence.Message, file *os.File) error {
	if err := pause(ctx, handlerWork); err != nil {
		return err
	}
	key, n := string(m.Key), sequenceOf(m.Value)-1
	if err := s.refusal(key, n, m.Attempt); err != nil {
		return err
	}
	return note(file, history.Arrival{Key: key, Number: int(n), Place: fmt.Sprintf("%d/%d/%d", m.Storage, m.Partition, m.Offset), Token: m.Token()})
}

// refusal is why an attempt fails; nil: it does not.
func (s *Spec) refusal(key string, n int64, attempt int) error {
	switch {
	case poisoned(key) && n == poisonNumber && !s.mended():
		return errPoison
	case hiccup(key, n, attempt):
		return errHiccup
	}
	return nil
}

// openTaken opens the file in which all write down what they take.
func (s *Spec) openTaken() (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(s.History, takenFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return file, nil
}

// note writes down that a record was taken.
func note(file *os.File, a history.Arrival) error {
	_, err := fmt.Fprintf(file, "%s %d %s %s\n", a.Key, a.Number, a.Place, a.Token)
	return err
}

func (s *Spec) mended() bool {
	_, err := os.Stat(filepath.Join(s.History, mendedFile))
	return err == nil
}

// arrival reads what note has written.
func arrival(line string) (a history.Arrival, ok bool) {
	parts := strings.Split(line, " ")
	if len(parts) != 4 {
		return a, false
	}
	n, err := strconv.Atoi(parts[1])
	return history.Arrival{Key: parts[0], Number: n, Place: parts[2], Token: parts[3]}, err == nil
}
