package pulsarlog

import (
	"fmt"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/ringfence/ringfence/internal/fault"
)

// An offset is a message id in one positive int64 that keeps the order of the ids:
//
//	63 62        61 ........... 30 29 ...... 10 9 ....... 0
//	 0  0          ledger (32)     entry (20)   batch (10)
//
// The batch index is the place of a record in its entry. What does not fit is an error: a wrapped
// offset would name another record.
const (
	batchBits = 10
	entryBits = 20

	maxBatch  = 1<<batchBits - 1
	maxEntry  = 1<<entryBits - 1
	maxLedger = 1<<32 - 1

	// batchRecords is how many records fit into one entry, and so into one append.
	batchRecords = maxBatch + 1
	// rollEntry is when a writer asks the broker for a new ledger. A broker begins one after 50,000
	// entries, but not before ten minutes have passed, which is too late for many small appends.
	rollEntry = maxEntry / 4 * 3
)

// pack is the offset of record batch of an entry.
func pack(ledger, entry int64, batch int32) (int64, error) {
	if ledger < 0 || ledger > maxLedger || entry < 0 || entry > maxEntry || batch < 0 || batch > maxBatch {
		return 0, fmt.Errorf("message id %d:%d:%d does not fit into an offset of 32, %d and %d bits (unload the topic for a new ledger; a ledger id above 32 bits needs a new cluster): %w",
			ledger, entry, batch, entryBits, batchBits, fault.Invalid)
	}
	return ledger<<(entryBits+batchBits) | entry<<batchBits | int64(batch), nil
}

// after is the offset that stands behind all records of an entry; -1 for the entry is the
// beginning of the ledger.
func after(ledger, entry int64) (int64, error) {
	if entry < 0 {
		return pack(ledger, 0, 0)
	}
	last, err := pack(ledger, entry, maxBatch)
	return last + 1, err
}

// unpack gives the ledger and the entry of an offset.
func unpack(offset int64) (ledger, entry int64) {
	return offset >> (entryBits + batchBits), offset >> batchBits & maxEntry
}

// packID is the offset of a message. A message that was sent without batching has index -1.
func packID(id pulsar.MessageID) (int64, error) {
	return pack(id.LedgerID(), id.EntryID(), max(id.BatchIdx(), 0))
}
