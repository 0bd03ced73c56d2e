package benchkit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/ringfence/ringfence"
)

// event is what a member tells of a partition.
type event struct {
	Kind      string        `json:"kind"` // "first" record of an epoch, "last" one before it was given away, "gaps", "left"
	Partition int           `json:"partition"`
	Epoch     int64         `json:"epoch,omitempty"`
	Offset    int64         `json:"offset,omitempty"`
	At        int64         `json:"at,omitempty"` // Unix ns
	Gaps      map[int]int64 `json:"gaps,omitempty"`
}

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
}

// teller keeps the state of a member and prints its events.
type teller struct {
	mu  sync.Mutex // guards parts, and orders the lines
	out *json.Encoder
	at  map[int]*handled
	err error
}

// tell is called with mu held: the lines of an agent are few, and its pipe is read at once.
func (t *teller) tell(e event) { t.err = errors.Join(t.err, t.out.Encode(message{Event: &e})) }

func (t *teller) handle(_ context.Context, m *ringfence.Message) error {
	now := time.Now().UnixNano()
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.at[m.Partition]
	if h == nil || h.epoch != m.Epoch {
		h = &handled{epoch: m.Epoch, at: now}
		t.at[m.Partition] = h
		t.tell(event{Kind: "first", Partition: m.Partition, Epoch: m.Epoch, Offset: m.Offset, At: now})
	}
	h.gap = max(h.gap, now-h.at)
	h.offset, h.at = m.Offset, now
	return t.err
}

func (t *teller) moved(unit int, _ int64, _, _ string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.at[unit]; h != nil {
		t.tell(event{Kind: "last", Partition: unit, Epoch: h.epoch, Offset: h.offset, At: h.at})
	}
}

func (t *teller) gaps() {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := event{Kind: "gaps", Gaps: map[int]int64{}}
	for p, h := range t.at {
		e.Gaps[p] = h.gap
		h.gap = 0
	}
	t.tell(e)
}

// run consumes until stdin says "leave" or ends; "gaps" asks for the longest gaps since the last
// time.
func (j *memberJob) run(ctx context.Context, stdin *bufio.Scanner, stdout *json.Encoder) (err error) {
	rf, err := ringfence.Open(ctx, ringfence.Config{Dir: j.Dir, Durability: j.Durability})
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
			Member: j.Member, Concurrency: 1, SessionTTL: j.SessionTTL, Events: ringfence.Events{Moved: t.moved},
		})
	}()
	for stdin.Scan() && stdin.Text() != "leave" {
		t.gaps()
	}
	cancel()
	err = <-consumed
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tell(event{Kind: "left"})
	return errors.Join(err, t.err)
}
