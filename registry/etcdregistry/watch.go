package etcdregistry

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/internal/fault"
)

// Between two tries to watch again.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// Watch implements driver.Registry. etcd's client reconnects by itself and goes on at the revision
// it had reached, so nothing is missed. When etcd has compacted that revision, or has no leader,
// the watch starts anew, which is signalled.
func (s *store) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	own, cancel := context.WithCancel(s.client.Ctx())
	release := context.AfterFunc(ctx, cancel)
	w := &watch{s: s, key: s.root + prefix, signals: make(chan struct{}, 1)}
	events, stop, err := w.start(own)
	if err == nil && !s.join(func() {
		defer close(w.signals)
		defer release()
		defer cancel()
		w.run(own, events, stop)
	}) {
		stop()
		err = fault.Closed
	}
	if err != nil {
		release()
		cancel()
		return nil, fmt.Errorf("etcd registry: watch of %q: %w", prefix, s.kind(ctx, err))
	}
	return w.signals, nil
}

// join runs f in a goroutine that Close waits for, unless it is closed.
func (s *store) join(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

type watch struct {
	s       *store
	key     string
	signals chan struct{}
}

// start begins at what is written from now on, and returns when the server confirms it. stop ends
// it.
func (w *watch) start(ctx context.Context) (_ clientv3.WatchChan, stop context.CancelFunc, err error) {
	began := time.Now()
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	events := w.s.client.Watch(ctx, w.key, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	late := time.NewTimer(w.s.timeout)
	defer late.Stop()
	select {
	case resp, open := <-events:
		switch {
		case !open:
			err = fault.Unavailable
		case resp.Err() != nil:
			err = resp.Err()
		default:
			return events, cancel, nil
		}
	case <-ctx.Done():
		err = ctx.Err()
	case <-late.C:
		w.s.conns.cull(began)
		err = context.DeadlineExceeded
	}
	cancel()
	return nil, nil, err
}

func (w *watch) run(ctx context.Context, events clientv3.WatchChan, stop context.CancelFunc) {
	for {
		err := w.follow(events)
		stop()
		for pause := firstPause; ; pause = min(2*pause, lastPause) {
			if ctx.Err() != nil {
				return
			}
			w.s.log.Debug("watching again", "key", w.key, "error", err)
			if events, stop, err = w.start(ctx); err == nil {
				break
			}
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
		w.signal()
	}
}

// follow signals what comes, until it ends.
func (w *watch) follow(events clientv3.WatchChan) error {
	for resp := range events {
		if err := resp.Err(); err != nil {
			return err
		}
		if len(resp.Events) > 0 {
			w.signal()
		}
	}
	return errors.New("the watch ended")
}

func (w *watch) signal() {
	select {
	case w.signals <- struct{}{}:
	default: // one is pending, and its receiver lists after this change
	}
}
