package redisregistry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"
)

// The lookout notices dead processes. Redis tells nobody that a connection has ended, but it
// says how many subscribers heard a message. So one process, whichever, calls out at intervals:
// one statement for them all. When the number of those who heard it changes, it has a census
// made, which asks for each process that has sessions whether somebody still listens on that
// process's own channel; who is missed twice has died, and its sessions end. Everybody hears the
// calls, so that the death of the caller is noticed, too: who misses three calls goes on instead.
// Of two callers the one with the lesser name goes on.
//
// The price is a message to each process at each call: hence a pause that is short under load,
// where it costs nothing to speak of and where a takeover matters, and longer when all is idle.
const (
	busyPause  = 15 * time.Millisecond
	idlePause  = 80 * time.Millisecond
	alonePause = time.Second // nobody else hears it; who comes says hello
	busyFor    = 2 * time.Second
	missed     = 3 // calls

	// censusPause is within what a session that merely expired is told to the watches.
	censusPause = time.Second
	// confirm is the time for a process that lost its connection to come back, before it counts
	// as dead.
	confirm = 20 * time.Millisecond
	// grace is the same when all have lost their connections, as the server was away.
	grace = 1500 * time.Millisecond
	// stalled: a server that takes so long to answer may have made others give it up.
	stalled = 250 * time.Millisecond
)

// lookout is one process's part in it, while it has a line.
type lookout struct {
	s     *store
	wire  rueidis.DedicatedClient
	quiet time.Time // nobody is declared dead before

	calling  bool
	heard    int64     // how many heard the last call
	counted  time.Time // the last census
	due      bool      // a census is due
	suspects []string
	timer    *time.Timer
}

func newLookout(s *store, wire rueidis.DedicatedClient, again bool) *lookout {
	w := &lookout{s: s, wire: wire, quiet: s.young, due: true}
	if again {
		w.hush()
	}
	return w
}

// hush gives everybody time to come back.
func (w *lookout) hush() {
	if until := time.Now().Add(grace); until.After(w.quiet) {
		w.quiet = until
	}
}

// run takes part until the line is lost, or ctx ends.
func (w *lookout) run(ctx context.Context, calls <-chan string, lost <-chan error, moved <-chan struct{}) error {
	if _, err := shout(ctx, w.s, w.wire, "hello "+w.s.process); err != nil {
		return err
	}
	w.timer = time.NewTimer(w.follow(idlePause))
	defer w.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-lost:
			return fmt.Errorf("the connection was lost: %w", err)
		case <-moved:
			return errors.New("its slot has moved to another node")
		case call := <-calls:
			w.take(call)
		case <-w.timer.C:
			if w.s.frozen.Load() {
				w.timer.Reset(idlePause)
				continue
			}
			if !w.calling {
				w.calling, w.due = true, true // who died while another called, or with it?
			}
			pause, err := w.call(ctx)
			if err != nil {
				return err
			}
			w.timer.Reset(pause)
		}
	}
}

// take hears a call of another process.
func (w *lookout) take(call string) {
	var verb, who string
	var millis int
	if n, _ := fmt.Sscan(call, &verb, &who, &millis); n < 2 || who == w.s.process {
		return
	}
	switch {
	case verb == "hello" && w.calling:
		w.due = true
		w.timer.Reset(0)
	case verb == "call" && (!w.calling || who < w.s.process):
		w.calling, w.suspects = false, nil
		w.timer.Reset(w.follow(time.Duration(millis) * time.Millisecond))
	}
}

// follow is how long to wait for the next call before taking over. Not all do so at once. The pause
// is what somebody said on the channel, and may be anything.
func (w *lookout) follow(pause time.Duration) time.Duration {
	pause = min(max(pause, busyPause), alonePause)
	return missed*pause + rand.N(pause)
}

// call calls out, has a census made if need be, and returns when to call again.
func (w *lookout) call(ctx context.Context) (time.Duration, error) {
	pause := w.pause()
	sent := time.Now()
	heard, err := shout(ctx, w.s, w.wire, fmt.Sprintf("call %s %d", w.s.process, pause.Milliseconds()))
	if err != nil {
		return 0, err
	}
	now := time.Now()
	if now.Sub(sent) > stalled {
		w.hush()
	}
	if heard != w.heard {
		w.heard, w.due = heard, true
	}
	if w.due || len(w.suspects) > 0 || now.Sub(w.counted) >= censusPause {
		w.census(ctx, now)
	}
	if len(w.suspects) > 0 {
		return confirm, nil
	}
	return w.pause(), nil
}

func (w *lookout) pause() time.Duration {
	switch {
	case w.heard == 1:
		return alonePause
	case time.Since(time.Unix(0, w.s.applied.Load())) < busyFor:
		return busyPause
	default:
		return idlePause
	}
}

// census ends the sessions of those who were missed in the last one and still are, and notes who
// is missed now. When it fails the next call repeats it.
func (w *lookout) census(ctx context.Context, now time.Time) {
	words := make([]string, 0, len(w.suspects))
	for _, process := range w.suspects {
		words = append(words, "p:"+process)
	}
	missing, err := w.s.count(ctx, words...)
	if err != nil {
		w.due = true
		return
	}
	w.due, w.counted, w.suspects = false, now, nil
	if now.Before(w.quiet) {
		w.due = len(missing) > 0
		return
	}
	w.suspects = missing
}
