package driver

import "context"

// Transactional is what a Registry may be whose entries can be written in a transaction of the
// user's, so that a checkpoint is committed together with the effects that it stands for.
type Transactional interface {
	// InTx gives the entries of the registry as they are inside tx, a transaction of the client
	// that the store is reached with (pgx.Tx or *sql.Tx) on the database that holds the registry.
	// ErrInvalid for any other type.
	InTx(tx any) (TxEntries, error)
}

// TxEntries reads and writes entries inside a transaction of the user's, who commits it or rolls
// it back. Its calls are made one after the other, as the transaction's are. An error may leave
// the transaction unusable, as any failed statement does: roll it back.
type TxEntries interface {
	// Lock reads keys and locks them until the end of the transaction, absent ones too: nobody
	// else changes them before. The entries come in the order of keys; an absent one has the
	// version "". Lock all keys that you need in one call: two transactions that lock the same
	// keys in several calls may wait for each other, and the store ends one with ErrConflict.
	Lock(ctx context.Context, keys ...string) ([]Entry, error)
	// Put writes a key that is locked, bound to no session. Watchers are not told.
	Put(ctx context.Context, key string, value []byte) (Version, error)
}
