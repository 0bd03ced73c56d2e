package benchkit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence"
)

// event is what a member tells of a partition, -1 for all that it owns, or of itself.
type event struct {
	Kind      string        `json:"kind"`
	Partition int           `json:"partition"`
	Epoch     int64         `json:"epoch,omitempty"`
	Offset    int64         `json:"offset,omitempty"`
	At        int64         `json:"at,omitempty"` // Unix ns
	Gaps      map[int]int64 `json:"gaps,omitempty"`
	CPU       time.Duration `json:"cpu,omitempty"`
}

// Kinds of events.
const (
	kindFirst    = "first"    // the first record of an epoch was handled
	kindLast     = "last"     // given away: the last record that was handled before
	kindAssigned = "assigned" // a worker of it is about to begin
	kindBroken   = "broken"   // its worker was stopped or its handler's context cancelled
	kindGaps     = "gaps"     // answer: the longest times between two records
	kindCPU      = "cpu"      // answer: the processor time so far
	kindLeft     = "left"     // the member has left cleanly
)

// memberJob is a consumer that tells which partitions it handles.
type memberJob struct {
	Dir        string
	Durability ringfence.Durability
	Member     string
	Topic      string
	SessionTTL time.Duration
}

// handled is what a member knows of a partition.
type handled struct {
	epoch, offset, at int64
	gap               int64 // the longest time between two records, in ns
	began             int64 // when the look at gaps began, Unix ns
}

// teller keeps the state of a member and prints its events.
type teller struct {
	mu  sync.Mutex // guards at and err, and orders the lines
	out *json.Encoder
	at  map[int]*handled
	err error
}

// tell is called with mu held: the lines of an agent are few, and its pipe is read at once.
func (t *teller) tell(e event) { t.err = errors.Join(t.err, t.out.Encode(message{Event: &e})) }

func (t *teller) handle(ctx context.Context, m *ringfence.Message) error {
	now := time.Now().UnixNano()
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.at[m.Partition]
	if h == nil || h.epoch != m.Epoch {
		h = &handled{epoch: m.Epoch, at: now}
		t.at[m.Partition] = h
		t.tell(event{Kind: kindFirst, Partition: m.Partition, Epoch: m.Epoch, Offset: m.Offset, At: now})
	}
	if ctx.Err() != nil {
		t.tell(event{Kind: kindBroken, Partition: m.Partition})
	}
	h.gap = max(h.gap, now-max(h.at, h.began))
	h.offset, h.at = m.Offset, now
	return t.err
}

// events tell when a partition's worker begins, is stopped, or gives it away.
func (t *teller) events() ringfence.Events {
	say := func(e event) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.tell(e)
	}
	return ringfence.Events{
		Assigned: func(unit int, _ int64, _, _ string) { say(event{Kind: kindAssigned, Partition: unit}) },
		Revoked:  func(unit int, _ int64, _ string) { say(event{Kind: kindBroken, Partition: unit}) },
		Fenced:   func(unit int, _ int64, _ string) { say(event{Kind: kindBroken, Partition: unit}) },
		Paused:   func(string) { say(event{Kind: kindBroken, Partition: -1}) },
		Moved:    t.moved,
	}
}

func (t *teller) moved(unit int, _ int64, _, _ string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.at[unit]; h != nil {
		t.tell(event{Kind: kindLast, Partition: unit, Epoch: h.epoch, Offset: h.offset, At: h.at})
	}
}

// gaps answers with the longest gaps since the last answer; one that still lasts counts.
func (t *teller) gaps() {
	now := time.Now().UnixNano()
	t.mu.Lock()
	defer t.mu.Unlock()
	e := event{Kind: kindGaps, Partition: -1, Gaps: map[int]int64{}}
	for p, h := range t.at {
		e.Gaps[p] = max(h.gap, now-max(h.at, h.began))
		h.gap, h.began = 0, now
	}
	t.tell(e)
}

func (t *teller) cpu() {
	var ru unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &ru)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = errors.Join(t.err, err)
	t.tell(event{Kind: kindCPU, Partition: -1, CPU: time.Duration(ru.Utime.Nano() + ru.Stime.Nano())})
}

// run consumes until stdin says "leave" or ends; "gaps" and "cpu" are questions.
func (j *memberJob) run(ctx context.Context, at Stores, stdin *bufio.Scanner, stdout *json.Encoder) (err error) {
	rf, err := at.open(ctx, j.Dir, j.Durability)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rf.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &teller{out: stdout, at: map[int]*handled{}}
	consumed := make(chan error, 1)
	go func() { // joined below
		consumed <- rf.Consume(ctx, j.Topic, "bench", t.handle, &ringfence.ConsumeOptions{
			Member: j.Member, Concurrency: 1, SessionTTL: j.SessionTTL, Events: t.events(),
		})
	}()
	for stdin.Scan() && stdin.Text() != "leave" {
		switch stdin.Text() {
		case kindGaps:
			t.gaps()
		case kindCPU:
			t.cpu()
		}
	}
	cancel()
	err = <-consumed
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tell(event{Kind: kindLeft, Partition: -1})
	return errors.Join(err, t.err)
}
