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
	"github.com/ringfence/ringfence/internal/limits"
)

// The failure detector notices dead processes. Redis tells nobody that a connection has ended, but it
// says how many subscribers heard a message. So one process, whichever, calls out at intervals:
// one statement for them all. When the number of those who heard it changes, it has a sweep
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

	// sweepPause is within what a session that merely expired is told to the watches.
	sweepPause = time.Second
	// confirm is the time for a process that lost its connection to come back, before it counts
	// as dead.
	confirm = 20 * time.Millisecond
	// grace is the same when all have lost their connections, as the server was away.
	grace = 1500 * time.Millisecond
	// stalled: a server that takes so long to answer may have made others give it up.
	stalled = 250 * time.Millisecond
	// ownPause is for how long a process relies on the calls of others before it looks by itself:
	// whoever may publish can call out without being there. With more than a hundred processes it is
	// longer, so that all of them together take no more of the server; and while it hears the same
	// one calling, by so many times.
	ownPause     = 3 * time.Second
	ownPauseEach = ownPause / 100
	sameCaller   = 5
)

// detector is one process's part in it, while it has a link.
type detector struct {
	s     *store
	wire  rueidis.DedicatedClient
	quiet time.Time // nobody is declared dead before

	calling  bool
	called   time.Time // when it called last
	heard    int64     // how many heard the last call
	counted  time.Time // the last sweep
	due      bool      // a sweep is due
	suspects []string
	told     bool // that no sweep can be made
	timer    *time.Timer

	doubted []string // by its own look
	caller  string   // whom it heard last
	patient int      // how many of its own pauses until it looks by itself
}

func newDetector(s *store, wire rueidis.DedicatedClient, again bool) *detector {
	w := &detector{s: s, wire: wire, quiet: s.young, due: true}
	if again {
		w.giveTime()
	}
	return w
}

// giveTime gives everybody time to come back.
func (w *detector) giveTime() {
	if until := time.Now().Add(grace); until.After(w.quiet) {
		w.quiet = until
	}
}

// run takes part until the link is lost, or ctx ends.
func (w *detector) run(ctx context.Context, calls <-chan string, lost <-chan error, moved <-chan struct{}) error {
	crowd, err := shout(ctx, w.s, w.wire, "hello "+w.s.process)
	if err != nil {
		return err
	}
	w.timer = time.NewTimer(w.follow(idlePause))
	defer w.timer.Stop()
	rest := max(ownPause, time.Duration(min(crowd, 1<<20))*ownPauseEach)
	own := time.NewTimer(rest/2 + rand.N(rest)) // not all at the same time
	defer own.Stop()
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
		case <-own.C:
			if w.patient--; w.patient <= 0 && w.look(ctx) {
				own.Reset(confirm)
			} else {
				own.Reset(rest)
			}
		case <-w.timer.C:
			if err := w.s.gate.Pass(ctx); err != nil {
				return err
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

// take hears a call of another process. What is none says nothing.
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
		if who != w.caller {
			w.caller, w.patient = who, 0
		}
		w.calling, w.suspects = false, nil
		w.timer.Reset(w.follow(pause))
	}
}

// decodeCall reads what somebody published: "hello <process>", or "call <process> <ms to the next>".
func decodeCall(message string) (verb, who string, pause time.Duration, ok bool) {
	if len(message) > limits.RedisCallBytes {
		return "", "", 0, false
	}
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

// follow is how long to wait for the next call before taking over. Not all do so at once. The pause
// is a wish of somebody on the channel. Who hears it is there, so that the caller is not alone, and
// the longest that it can need is the pause of an idle ring.
func (w *detector) follow(pause time.Duration) time.Duration {
	pause = min(max(pause, busyPause), idlePause)
	return missed*pause + rand.N(pause)
}

// look is the sweep of a process that follows: it believes in nobody's calls for ever. It is true
// while somebody is missed, who has died if he still is the next time.
func (w *detector) look(ctx context.Context) bool {
	if w.calling || w.s.gate.Pass(ctx) != nil {
		w.doubted = nil
		return false
	}
	sent := time.Now()
	missing, err := w.s.count(ctx, suspected(w.doubted)...)
	now := time.Now()
	if now.Sub(sent) > stalled {
		w.giveTime()
	}
	if w.doubted = nil; err == nil && !now.Before(w.quiet) {
		w.doubted = missing
	}
	if len(w.doubted) == 0 {
		w.patient = sameCaller
	}
	return len(w.doubted) > 0
}

func suspected(processes []string) []string {
	words := make([]string, 0, len(processes))
	for _, process := range processes {
		words = append(words, "p:"+process)
	}
	return words
}

// call calls out, has a sweep made if need be, and returns when to call again.
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
		return confirm, nil
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

// sweep ends the sessions of those who were missed in the last one and still are, and notes who
// is missed now. When it fails the next call repeats it.
func (w *detector) sweep(ctx context.Context, now time.Time) {
	missing, err := w.s.count(ctx, suspected(w.suspects)...)
	if err != nil {
		if errors.Is(err, fault.Corrupt) && !w.told {
			w.told = true
			w.s.log.Error("no death of a process is noticed before its sessions run out", "error", err)
		}
		w.due = true
		return
	}
	w.due, w.counted, w.suspects, w.told = false, now, nil, false
	if now.Before(w.quiet) {
		w.due = len(missing) > 0
		return
	}
	w.suspects = missing
}
