package driver

import "context"

// Bare is what a Registry may be for benchmarks: it tells what the store itself can do.
type Bare interface {
	// Bare prepares the request with which Apply would send txns, and returns a function that
	// sends it over the store's own client, reads the whole answer and does nothing else with it.
	// Sent again and again, it writes the same again and again, under the same checks, which
	// must therefore be of keys that txns don't write. The function serves one goroutine.
	Bare(ctx context.Context, txns []Txn) (send func(ctx context.Context) error, err error)
}
