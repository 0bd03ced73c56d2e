package driver

import "context"

// Transactional is a Registry whose entries can be written in a transaction of the user, so that a checkpoint
// is committed together with the effects of its records.
type Transactional interface {
	// InTx gives access to the entries inside tx, a transaction of the store's client (pgx.Tx or *sql.Tx)
	// on the database that holds the registry. ErrInvalid for any other type.
	InTx(tx any) (TxEntries, error)
}

// TxEntries reads and writes entries inside a transaction of the user, who commits it or rolls it back. Its
// methods must not be called concurrently. After an error the transaction may be unusable: roll it back.
type TxEntries interface {
	// Lock reads keys, absent ones too, and locks them until the end of the transaction. The entries come
	// in the order of keys; an absent one has the version "". Lock all keys in one call: two transactions
	// that lock the same keys in several calls may deadlock, and the store ends one with ErrConflict.
	Lock(ctx context.Context, keys ...string) ([]Entry, error)
	// Put writes a locked key, bound to no session. It signals no watches.
	Put(ctx context.Context, key string, value []byte) (Version, error)
}
