package verify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/harness"
)

// Spec is the task of one start of a process. It holds no secrets: command lines show in the list of processes.
type Spec struct {
	Name    string        `json:"name"`
	Start   int           `json:"start"` // its number among the starts of its name, from 1
	Topic   string        `json:"topic"`
	Group   string        `json:"group"`
	History string        `json:"history"` // directory
	TTL     time.Duration `json:"ttl"`
	Parent  int           `json:"parent"` // process that started it

	Load *Load `json:"load,omitempty"` // of a producer; nil: it is a consumer

	// Subscription: a consumer delivers the subscription that the group is called by.
	Subscription bool `json:"subscription,omitempty"`
	// Endpoint: it is a demo's receiver, and listens there. Forget: it loses a record, which the judge has to find.
	Endpoint string `json:"endpoint,omitempty"`
	Forget   bool   `json:"forget,omitempty"`
}

// Load is what a producer sends.
type Load struct {
	Idempotent bool `json:"idempotent"`
	// Resume: it goes on where its earlier starts ended, under the same IDs, and sends again what
	// they did not see acknowledged. Else its keys and IDs are those of this start.
	Resume bool    `json:"resume"`
	Keys   int     `json:"keys"`
	Rate   float64 `json:"rate"` // records a second
	Size   int     `json:"size"`
}

// path is of the history of a start.
func (s *Spec) path() string {
	return filepath.Join(s.History, fmt.Sprintf("%s-%d.jsonl", s.Name, s.Start))
}

// handlerWork is what a handler takes for one record.
const handlerWork = time.Millisecond

// Serve is the body of a process, which opens the stores. It returns when ctx ends, or when it can't go on.
func Serve(ctx context.Context, s Spec, open func(context.Context) (*ringfence.Client, error), logger *slog.Logger) error {
	return serveWith(ctx, s, open, logger, nil)
}

func serveWith(ctx context.Context, s Spec, open func(context.Context) (*ringfence.Client, error), logger *slog.Logger, wrap func(ringfence.Handler) ringfence.Handler) error {
	if s.Endpoint != "" {
		return s.serveEndpoint(ctx)
	}
	rf, err := open(ctx)
	opened := err == nil
	if opened {
		err = s.work(ctx, rf, logger, wrap)
	}
	if ctx.Err() != nil && (!opened || errors.Is(err, context.Canceled)) {
		return nil // it was asked to end: before it had begun, whatever a store's client makes of that, or at its work
	}
	return err
}

func (s Spec) work(ctx context.Context, rf *ringfence.Client, logger *slog.Logger, wrap func(ringfence.Handler) ringfence.Handler) error {
	switch {
	case s.Load != nil:
		return errors.Join(produce(ctx, s, rf), rf.Close())
	case s.Subscription:
		return errors.Join(deliver(ctx, s, rf, logger, wrap), rf.Close())
	}
	return harness.ServeProcess(ctx, harness.MemberConfig{ // closes what is below the client
		Name: s.Name, Topic: s.Topic, Group: s.Group, TTL: s.TTL, Work: handlerWork,
		Logger: logger, Log: rf.Log(), Store: rf.Registry(), Namespace: rf.Namespace(),
		Sequence: func(m *ringfence.Message) int64 { return sequenceOf(m.Value) },
	}, s.path())
}

// Away says whether a process ended because its store was, which is no fault of its own.
func Away(err error) bool {
	return err != nil && (errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Unknown) || errors.Is(err, context.DeadlineExceeded))
}

// ExitAway is the exit code of such a process.
const ExitAway = 75

// value is record number n of a key: both, and as many bytes as are asked for.
func value(key string, n int64, size int) []byte {
	v := fmt.Appendf(make([]byte, 0, size), "%d %s ", n, key)
	for len(v) < size {
		v = append(v, '.')
	}
	return v
}

// sequenceOf is the number of a record by its value; 0 of a foreign value.
func sequenceOf(value []byte) int64 {
	number, _, _ := strings.Cut(string(value[:min(len(value), 20)]), " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
