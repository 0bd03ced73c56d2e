package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
)

// Input is a partition that a unit consumes.
type Input struct {
	Storage   int
	Partition int
	Source    Source
	Compacted bool // records may vanish between others, so that a missing one says nothing
}

// Config configures an engine.
type Config struct {
	Name    string // of the unit, for logs and errors
	Inputs  []Input
	Handler Handler

	// Start is how far the unit got. Positions of other partitions are carried along. An input without one begins at
	// the first record that is kept.
	Start []protocol.Position

	Concurrency int // handlers at the same time, with those that answer later; default 16. With 1, records without a key keep their order too, unless OrderBy says otherwise
	// OrderBy maps a key to what its records are ordered by; nil: the key itself. A record for which it returns
	// nil is ordered with no other. Several goroutines call it, for a key more than once. It must not block,
	// and always returns the same for a key.
	OrderBy func(key []byte) []byte
	// MaxInFlight bounds the records read and unfinished (default 8,192, at most MostInFlight), MaxBytes
	// their memory (default 16 MiB). At a bound the engine stops reading until handlers have caught up;
	// one record is always let in.
	MaxInFlight int
	MaxBytes    int64
	// MaxRanges is how many finished ranges between unfinished records stop the reading, and how many Progress
	// reports, over all inputs, which have equal shares; default 1,000. It bounds the size of a checkpoint.
	MaxRanges int

	Retry Retry
	// OnHeld takes over a failing record from the handler. With it Progress names the failing records, and an
	// engine that starts there goes on counting their attempts. nil finishes the record; an error keeps it, and
	// OnHeld is called again after a pause. It is called when the policy says to park a record or to give it up,
	// when failing records and those behind them take half of what the engine may hold, and when their partition
	// is sealed and read to its end. Without OnHeld failing records are tried for ever.
	OnHeld func(ctx context.Context, r *Record, h Held) error

	// ProgressTimeout bounds a handler's time for one record, until its answer. A longer one is stuck: the engine
	// cancels its context and stops with a StuckError. Zero: no bound.
	ProgressTimeout time.Duration
	// DrainTimeout is how long Drain waits for running handlers before it cancels their context.
	// Zero: for ever.
	DrainTimeout time.Duration
	// AbandonAfter is how long Run waits for handlers whose context was cancelled; then it returns
	// without them, with a StuckError. Default 5 s.
	AbandonAfter time.Duration

	// Advanced, when not nil, is called whenever Version moves on, also under locks: it must not
	// block, nor call the engine.
	Advanced func()

	Logger *slog.Logger // nil: discard
}

// Held is a failing record, and why it is given away.
type Held struct {
	Attempts int
	Since    time.Time // of the first failure
	Next     time.Time // when the next attempt would have been
	Err      error     // of the last attempt; ErrEarlier when it was made before the engine was started
	Why      Why
}

// Why is the reason for giving a failing record to OnHeld.
type Why string

// The reasons.
const (
	SpentAttempts Why = "attempts"  // it has used up its attempts
	Refused       Why = "permanent" // its error says that it can never succeed
	HeldLong      Why = "hold"      // its next attempt lies beyond HoldFor
	Crowded       Why = "bound"     // too much waits in memory
	AtTheEnd      Why = "end"       // its partition has no other unfinished records
)

// MostInFlight is the highest Config.MaxInFlight.
const MostInFlight = 16384

const (
	readBytes    = 256 << 10 // budget of one read
	readRecords  = 4096      // records that one read should bring, about
	blockRecords = 256       // records taken in at once
	readAhead    = 1024      // records that may run: no need to read more
)

// withDefaults returns the configuration with its defaults, or all of its faults.
func (c Config) withDefaults() (Config, error) {
	err := c.validate()
	c.Concurrency = cmp.Or(c.Concurrency, 16)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, 8192)
	c.MaxBytes = cmp.Or(c.MaxBytes, 16<<20)
	c.MaxRanges = max(1, cmp.Or(c.MaxRanges, 1000)/max(1, len(c.Inputs))) // from here on, for each input
	c.Retry = c.Retry.withDefaults()
	c.AbandonAfter = cmp.Or(c.AbandonAfter, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, err
}

// Check reports every fault of the settings that all units of a group share, before there is a unit:
// otherwise each unit would end as soon as it begins. Its errors begin with whose.
func (c *Config) Check(whose string) error {
	var errs []error
	demand := demands(whose, &errs)
	demand(c.Concurrency >= 0 && c.MaxBytes >= 0 && c.MaxRanges >= 0, "a negative Concurrency, MaxBytes or MaxRanges")
	demand(c.MaxInFlight >= 0 && c.MaxInFlight <= MostInFlight, "MaxInFlight is %d; expected 1 to %d (0: default)", c.MaxInFlight, MostInFlight)
	demand(c.Retry.Initial >= 0 && c.Retry.Max >= 0 && c.Retry.MaxAttempts >= 0, "a negative Retry field")
	demand(c.Retry.Initial == 0 || c.Retry.Max == 0 || c.Retry.Initial <= c.Retry.Max, "Retry.Max %s is below Retry.Initial %s", c.Retry.Max, c.Retry.Initial)
	demand(c.ProgressTimeout >= 0 && c.DrainTimeout >= 0 && c.AbandonAfter >= 0, "a negative time-out")
	return errors.Join(errs...)
}

// demands returns what notes the faults of a configuration.
func demands(whose string, errs *[]error) func(ok bool, format string, args ...any) {
	return func(ok bool, format string, args ...any) {
		if !ok {
			*errs = append(*errs, fmt.Errorf("%s: %s: %w", whose, fmt.Sprintf(format, args...), fault.Invalid))
		}
	}
}

// validate reports the faults of Check, and those of this unit alone.
func (c *Config) validate() error {
	whose := fmt.Sprintf("dispatch %q", c.Name)
	errs := []error{c.Check(whose)}
	demand := demands(whose, &errs)
	demand(c.Handler != nil, "no Handler")
	demand(len(c.Inputs) > 0, "no Inputs")
	demand(c.OnHeld != nil || c.Retry.MaxAttempts == 0 && c.Retry.HoldFor == 0, "Retry.MaxAttempts and Retry.HoldFor need OnHeld")
	seen := map[[2]int]bool{}
	for _, in := range c.Inputs {
		at := [2]int{in.Storage, in.Partition}
		demand(in.Source != nil, "input %v has no Source", at)
		demand(!seen[at], "input %v is there twice", at)
		seen[at] = true
	}
	return errors.Join(errs...)
}

// StuckError says that a handler did not return, or answer, in time. The record is unfinished; the handler's
// goroutine may still be running.
type StuckError struct {
	Name               string // of the unit
	Storage, Partition int
	Offset             int64
	For                time.Duration
	Out                bool // the handler has returned, and has not answered
}

func (e *StuckError) Error() string {
	verb := "returned from"
	if e.Out {
		verb = "answered for"
	}
	return fmt.Sprintf("unit %s: the handler has not %s storage %d partition %d offset %d for %s; the unit is given up (make the handler honour its context, or raise the time-out)",
		e.Name, verb, e.Storage, e.Partition, e.Offset, e.For.Round(time.Millisecond))
}
