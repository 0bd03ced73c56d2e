package measure

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/script"
)

// Kinds of events.
const (
	kindFirst    = "first"    // the first record of an epoch was handled
	kindLast     = "last"     // given away: the last record that was handled before
	kindAssigned = "assigned" // a worker of it is about to begin
	kindBroken   = "broken"   // its worker was stopped or its handler's context cancelled
	kindCPU      = "cpu"      // answer: the processor time so far
	kindAges     = "ages"     // answer, when so many records have come: how old they were
	kindLeft     = "left"     // the member has left cleanly
)

// memberJob is a consumer that tells which partitions it handles.
type memberJob struct {
	site
	Member     string
	Topic      string
	SessionTTL time.Duration
	Stamped    bool // records begin with the moment at which they were produced; else they are handled one by one
}

// handled is what a member knows of a partition.
type handled struct {
	epoch, offset, at int64
}

// teller keeps the state of a member and prints its events.
type teller struct {
	talk    *harness.Talk
	stamped bool

	mu   sync.Mutex // guards what follows, and orders the lines
	came sync.Cond  // a record, or the end
	over bool
	ages Samples
	at   map[int]*handled
	err  error
}

// tell is called with mu held: the lines of an agent are few, and its pipe is read at once.
func (t *teller) tell(e event) { t.err = errors.Join(t.err, t.talk.Say(&e)) }

// say is called without it.
func (t *teller) say(kind string, partition int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tell(event{Kind: kind, Partition: partition})
}

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
	h.offset, h.at = m.Offset, now
	if t.stamped {
		t.ages.Add(time.Duration(now - int64(binary.LittleEndian.Uint64(m.Value))))
		t.came.Signal()
	}
	return t.err
}

// events tell when a partition's worker begins, is stopped, or gives it away.
func (t *teller) events() ringfence.Events {
	return ringfence.Events{
		Assigned: func(unit int, _ int64, _, _ string) { t.say(kindAssigned, unit) },
		Revoked:  func(unit int, _ int64, _ string) { t.say(kindBroken, unit) },
		Fenced:   func(unit int, _ int64, _ string) { t.say(kindBroken, unit) },
		Paused:   func(string) { t.say(kindBroken, -1) },
		HandedOver: func(unit int, _ int64, _, _ string) {
			t.mu.Lock()
			defer t.mu.Unlock()
			if h := t.at[unit]; h != nil {
				t.tell(event{Kind: kindLast, Partition: unit, Epoch: h.epoch, Offset: h.offset, At: h.at})
			}
		},
	}
}

// end wakes an answer that waits for records.
func (t *teller) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.came.Signal()
}

// answer answers a question.
func (t *teller) answer(question string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := event{Partition: -1, CPU: ProcessorTime()}
	var records int64
	_, _ = fmt.Sscan(question, &e.Kind, &records) // not all questions have a number
	if e.Kind == kindAges {
		for int64(len(t.ages)) < records && !t.over {
			t.came.Wait()
		}
		e.Ages, t.ages = t.ages, nil
	}
	t.tell(e)
}

// Run consumes until it is asked to leave, or its starter is gone; every other line is a question.
func (j *memberJob) Run(ctx context.Context, talk *harness.Talk) error {
	return script.Try(func(s *script.Script) {
		rf := j.open(ctx, s)
		t := &teller{talk: talk, stamped: j.Stamped, at: map[int]*handled{}}
		t.came.L = &t.mu
		opts := ringfence.ConsumeOptions{Member: j.Member, Concurrency: 1, SessionTTL: j.SessionTTL, Events: t.events()}
		if j.Stamped {
			opts.Concurrency = 0 // the default
		}
		leave := s.Beside(ctx, func(ctx context.Context) error {
			defer t.end()
			return rf.Consume(ctx, j.Topic, j.Topic, t.handle, &opts)
		})
		for line, ok := talk.Hear(); ok && line != "leave"; line, ok = talk.Hear() {
			t.answer(line)
		}
		err := leave()
		t.say(kindLeft, -1)
		script.Check(errors.Join(err, t.err))
	})
}
