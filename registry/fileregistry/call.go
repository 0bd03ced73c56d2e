package fileregistry

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

// call hands a request to the core and waits for the answer. done is false when the error means
// that nothing was done.
func (s *store) call(ctx context.Context, r *request) (_ reply, done bool, _ error) {
	if err := ctx.Err(); err != nil {
		return reply{}, false, err
	}
	select {
	case <-s.quit:
		return reply{}, false, fmt.Errorf("file registry: %w", fault.Closed)
	default:
	}
	r.reply = make(chan reply, 1)
	select {
	case s.core.requests <- r:
	case <-ctx.Done():
		return reply{}, false, ctx.Err()
	case <-s.quit:
		return reply{}, false, fmt.Errorf("file registry: %w", fault.Closed)
	}
	select {
	case rep := <-r.reply:
		return rep, true, rep.err
	case <-ctx.Done():
		return reply{}, !r.fate.CompareAndSwap(0, withdrawn), ctx.Err()
	}
}

func (s *store) List(ctx context.Context, prefix string) (driver.Snapshot, error) {
	rep, _, err := s.call(ctx, &request{list: true, prefix: prefix})
	return rep.snap, err
}

func (s *store) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	results := make([]driver.Result, 0, len(txns))
	for len(results) < len(txns) {
		n, size := portion(txns[len(results):])
		batch := txns[len(results):][:n:n]
		if size > maxTxn {
			results = append(results, driver.Result{Err: fmt.Errorf("a transaction of %d bytes; at most %d are allowed: %w", size, maxTxn, fault.Invalid)})
			continue
		}
		rep, done, err := s.call(ctx, &request{txns: batch, size: size})
		if err == nil {
			results = append(results, rep.results...)
			continue
		}
		unknown := done && ctx.Err() != nil // given up while it was being written
		if len(results) == 0 && !unknown {
			return nil, err
		}
		untried := driver.Result{Err: fmt.Errorf("%w: %w", err, fault.Unavailable)}
		if unknown {
			err = fmt.Errorf("%w: %w", err, fault.Unknown)
		}
		results = append(results, slices.Repeat([]driver.Result{{Err: err}}, n)...)
		results = append(results, slices.Repeat([]driver.Result{untried}, len(txns)-len(results))...)
	}
	return results, nil
}

// portion is how many of txns are written at once, and how large their ops are at most.
func portion(txns []driver.Txn) (n, size int) {
	for n < len(txns) {
		more := txnSize(&txns[n])
		if n > 0 && size+more > maxBatch {
			break
		}
		size += more
		n++
	}
	return n, size
}

const opOverhead = 32 // kind and lengths

func txnSize(t *driver.Txn) int {
	size := 0
	for i := range t.Puts {
		p := &t.Puts[i]
		size += len(p.Key) + len(p.Value) + len(p.Session) + opOverhead
	}
	for _, k := range t.Deletes {
		size += len(k) + opOverhead
	}
	return size
}

const nothing = "\x00\x00" // a prefix of no key

func (s *store) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	// A list first: what was written before the watch is seen, and signals what comes after.
	if _, _, err := s.call(ctx, &request{list: true, prefix: nothing}); err != nil {
		return nil, err
	}
	ch, ok := s.core.watches.Add(ctx, prefix)
	if !ok {
		return nil, fmt.Errorf("file registry: %w", fault.Closed)
	}
	signal(s.keeper.changed) // it wakes the waiting calls
	return ch, nil
}
