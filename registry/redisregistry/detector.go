package redisregistry

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/ringfence/ringfence/internal/fault"
)

// The failure detector notices dead processes. Redis reports no closed connection to others, but it
// counts the subscribers that got a message. So one process, the caller, publishes a call at
// intervals. When the number of its listeners changes, the caller runs the sweep script, which asks
// for each process with sessions whether its own channel still has a subscriber. A process that two
// sweeps in a row miss is dead, and its sessions end. All processes hear the calls: one that misses
// three of them becomes the caller. Of two callers the one with the lesser name stays.
//
// A call costs one message to each process. The pause is therefore short under load, where a
// takeover is urgent and the cost does not show, and longer when the store is idle.
const (
	busyPause  = 15 * time.Millisecond
	idlePause  = 80 * time.Millisecond
	alonePause = time.Second // without other listeners; a newcomer says hello
	busyFor    = 2 * time.Second
	missed     = 3 // calls

	// sweepPause bounds how late the watches learn of a session that expired.
	sweepPause = time.Second
	// confirm is the time that a process has to reconnect before it counts as dead.
	confirm = 20 * time.Millisecond
	// grace is the same after an outage of the server, when all processes reconnect.
	grace = 1500 * time.Millisecond
	// stalled is an answer time after which other processes may have closed their connections.
	stalled = 250 * time.Millisecond
)

// detector is the part of one process, while its link is up.
type detector struct {
	s     *store
	wire  rueidis.DedicatedClient
	quiet time.Time // no process counts as dead before

	calling  bool
	called   time.Time // when it called last
	heard    int64     // how many heard the last call
	counted  time.Time // the last sweep
	due      bool      // a sweep is due
	suspects []string
	logged   bool // the failure of sweeps
	timer    *time.Timer
}

func newDetector(s *store, wire rueidis.DedicatedClient, again bool) *detector {
	w := &detector{s: s, wire: wire, quiet: s.young, due: true}
	if again {
		w.giveTime()
	}
	return w
}

// giveTime gives all processes the grace to reconnect.
func (w *detector) giveTime() {
	if until := time.Now().Add(grace); until.After(w.quiet) {
		w.quiet = until
	}
}

// run takes part until the link is lost, or ctx ends.
func (w *detector) run(ctx context.Context, calls <-chan string, lost <-chan error, moved <-chan struct{}) error {
	_, err := shout(ctx, w.s, w.wire, "hello "+w.s.process)
	if err != nil {
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
			if err := w.s.gate.Pass(ctx); err != nil {
				return err
			}
			if !w.calling {
				w.calling, w.due = true, true // the last caller may be dead, and others with it
			}
			pause, err := w.call(ctx)
			if err != nil {
				return err
			}
			w.timer.Reset(pause)
		}
	}
}

// take handles a message on the channel. One that is not ours is ignored.
func (w *detector) take(message string) {
	verb, who, pause, ok := decodeCall(message)
	if !ok || who == w.s.process {
		return
	}
	switch {
	case verb == "hello" && w.calling:
		w.due = true
		w.timer.Reset(busyPause - min(busyPause, time.Since(w.called))) // however many say it
	case verb == "call" && (!w.calling || who < w.s.process):
		w.calling, w.suspects = false, nil
		w.timer.Reset(w.follow(pause))
	}
}

// decodeCall reads a message: "hello <process>", or "call <process> <ms to the next>".
func decodeCall(message string) (verb, who string, pause time.Duration, ok bool) {
	verb, rest, _ := strings.Cut(message, " ")
	who, millis, more := strings.Cut(rest, " ")
	if id, err := base64.RawURLEncoding.DecodeString(who); err != nil || len(id) != idBytes {
		return "", "", 0, false
	}
	switch verb {
	case "hello":
		return verb, who, 0, !more
	case "call":
		n, err := strconv.ParseUint(millis, 10, 32)
		return verb, who, time.Duration(n) * time.Millisecond, err == nil
	}
	return "", "", 0, false
}

// follow is how long to wait for the next call before taking over; random, so that processes do not
// take over all at once. A caller that thinks it is alone announces a longer pause than it will
// make: the process that hears the call is another listener.
func (w *detector) follow(pause time.Duration) time.Duration {
	pause = min(max(pause, busyPause), idlePause)
	return missed*pause + rand.N(pause)
}

// call publishes a call, sweeps if need be, and returns the time until the next call.
func (w *detector) call(ctx context.Context) (time.Duration, error) {
	pause := w.pause()
	sent := time.Now()
	w.called = sent
	heard, err := shout(ctx, w.s, w.wire, fmt.Sprintf("call %s %d", w.s.process, pause.Milliseconds()))
	if err != nil {
		return 0, err
	}
	now := time.Now()
	if now.Sub(sent) > stalled {
		w.giveTime()
	}
	if heard != w.heard {
		w.heard, w.due = heard, true
	}
	if w.due || len(w.suspects) > 0 || now.Sub(w.counted) >= sweepPause {
		w.sweep(ctx, now)
	}
	if len(w.suspects) > 0 {
		return w.s.confirm, nil
	}
	return w.pause(), nil
}

func (w *detector) pause() time.Duration {
	switch {
	case w.heard == 1:
		return alonePause
	case time.Since(time.Unix(0, w.s.applied.Load())) < busyFor:
		return busyPause
	default:
		return idlePause
	}
}

// sweep ends the sessions of the processes that the last sweep missed and this one misses too, and
// remembers the missing processes. After a failure the next call repeats it.
func (w *detector) sweep(ctx context.Context, now time.Time) {
	var words []string
	for _, process := range w.suspects {
		words = append(words, "p:"+process)
	}
	missing, err := w.s.count(ctx, words...)
	if err != nil {
		if errors.Is(err, fault.Corrupt) && !w.logged {
			w.logged = true
			w.s.log.Error("the sweep for dead processes fails; their sessions end with their TTL only", "error", err)
		}
		w.due = true
		return
	}
	w.due, w.counted, w.suspects, w.logged = false, now, nil, false
	if now.Before(w.quiet) {
		w.due = len(missing) > 0
		return
	}
	w.suspects = missing
}
