package hook

import (
	"context"
	"errors"
	"sync"
)

// Requests are what a call of a store sends to its server. A benchmark records them and sends them
// again, to know what the server and its client can do without us. The zero Requests are none.
type Requests struct {
	mu    sync.Mutex
	sends []func(ctx context.Context) error
}

type requestsKey struct{}

// Record is a context to call a store with, whose requests are added to r.
func (r *Requests) Record(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestsKey{}, r)
}

// Len is how many were recorded; 0 of a store that sends none, or does not tell.
func (r *Requests) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sends)
}

// Send sends them again, one after the other. What they write, and under which checks, is the same.
func (r *Requests) Send(ctx context.Context) error {
	for _, send := range r.sends {
		if err := send(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *Requests) add(send func(ctx context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sends = append(r.sends, send)
}

// Sent tells of a request of the call that ctx belongs to: send sends it once more by the store's
// client, reads the whole answer and does nothing else with it.
func Sent(ctx context.Context, send func(ctx context.Context) error) {
	if r, ok := ctx.Value(requestsKey{}).(*Requests); ok {
		r.add(send)
	}
}

// AtOnce is a context for requests that a call sends at the same time.
func AtOnce(ctx context.Context) context.Context {
	r, ok := ctx.Value(requestsKey{}).(*Requests)
	if !ok {
		return ctx
	}
	wave := &Requests{}
	r.add(wave.sendAtOnce)
	return wave.Record(ctx)
}

func (r *Requests) sendAtOnce(ctx context.Context) error {
	errs := make([]error, len(r.sends))
	var all sync.WaitGroup
	for i, send := range r.sends {
		all.Go(func() { errs[i] = send(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}
