package driver

import "context"

// Settler is what a Topic may also be, when its readers see what a power loss may take.
type Settler interface {
	// Unsettled tells whether readers of this handle may see such records.
	Unsettled() bool
	// Doubt is a number that has changed when records that readers have seen may have been taken back, after
	// an error of a sync: others get their offsets then.
	Doubt() uint64
	// Settle returns nil when all that could be read when it was called is on stable storage.
	Settle(ctx context.Context) error
}
