package pulsarlog

import (
	"context"
	"fmt"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/ringfence/ringfence/internal/fault"
)

// feed gives the messages of a partition from an offset on, each once, in order, and none left out.
//
// The last is its own doing: when the client connects anew it drops what is left of the entry that
// it hands out just then, and goes on with the next. So a message that does not follow on the one
// before is believed only when a second reader, which begins at the gap, gives it too. Real gaps
// are rare: the first message of all, and the one behind the end of a ledger. So is what can't be read,
// which may have been damaged on its way.
type feed struct {
	open   func(ctx context.Context, from int64) (pulsar.Reader, error)
	reader pulsar.Reader
	from   int64 // all below was given
	doubt  int64 // what a reader gave behind a gap; -1: nothing
}

func (p *partition) openFeed(ctx context.Context, from int64) (*feed, error) {
	return newFeed(ctx, p.openReader, from)
}

func newFeed(ctx context.Context, open func(ctx context.Context, from int64) (pulsar.Reader, error), from int64) (*feed, error) {
	r, err := open(ctx, from)
	if err != nil {
		return nil, err
	}
	return &feed{open: open, reader: r, from: from, doubt: -1}, nil
}

// next waits for the next message; behind is the offset to go on from after it. A nil message
// says that the entry ended before the offset that was asked for.
func (f *feed) next(ctx context.Context) (m pulsar.Message, offset, behind int64, err error) {
	for {
		if m, err = f.reader.Next(ctx); err != nil {
			return nil, 0, 0, fmt.Errorf("%w: %w", fault.Unavailable, err)
		}
		if offset, err = packID(m.ID()); err != nil {
			return nil, 0, 0, err
		}
		if offset < f.from && (damage(m) == nil || f.passed(m)) { // before the start in its entry, or sent again after a new connection
			last, err := entryEnd(m)
			if err != nil || last > f.from {
				f.from = max(f.from, last)
				return nil, 0, f.from, err
			}
			continue
		}
		if offset == f.from && damage(m) == nil || offset == f.doubt {
			break
		}
		f.doubt = offset
		f.reader.Close()
		r, err := f.open(ctx, f.from)
		if err != nil {
			return nil, 0, 0, err // the closed reader is closed again, which does nothing
		}
		f.reader = r
	}
	f.doubt = -1
	last, err := entryEnd(m)
	f.from = max(offset+1, last)
	return m, offset, f.from, err
}

// passed says whether all of a message's entry was given.
func (f *feed) passed(m pulsar.Message) bool {
	end, err := entryEnd(m)
	return err == nil && end <= f.from
}

// entryEnd is the offset behind the entry that m is the last message of; 0 when it is not.
func entryEnd(m pulsar.Message) (int64, error) {
	if m.ID().BatchIdx()+1 < m.ID().BatchSize() {
		return 0, nil
	}
	return after(m.ID().LedgerID(), m.ID().EntryID())
}

func (f *feed) close() { f.reader.Close() }
