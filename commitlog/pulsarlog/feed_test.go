package pulsarlog

import (
	"context"
	"slices"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar"
	"pgregory.net/rapid"
)

// place is where a message stands, and how many are in its entry.
type place struct {
	ledger, entry int64
	batch, size   int32
}

func (p place) offset(t *rapid.T) int64 {
	at, err := pack(p.ledger, p.entry, p.batch)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// message is one at a place, and its ID.
type message struct {
	pulsar.Message
	pulsar.MessageID
	size int32
}

func (m message) ID() pulsar.MessageID { return m }
func (m message) BatchSize() int32     { return m.size }

func (m message) Properties() map[string]string { return nil }

// flaky reads messages in order as Pulsar's client does: when it connects anew, what is left of
// the entry that it is giving out is lost, or given again from its beginning.
type flaky struct {
	pulsar.Reader
	t     *rapid.T
	all   []place
	next  int
	given bool // of the entry at next, one at least
}

func (f *flaky) Next(ctx context.Context) (pulsar.Message, error) {
	if f.given && f.next < len(f.all) && f.all[f.next].batch > 0 {
		switch rapid.IntRange(0, 5).Draw(f.t, "reconnect") {
		case 0: // the rest is lost
			at := f.all[f.next].entry
			for f.next < len(f.all) && f.all[f.next].entry == at && f.all[f.next].batch > 0 {
				f.next++
			}
		case 1: // it comes again
			for f.all[f.next].batch > 0 {
				f.next--
			}
		}
	}
	if f.next == len(f.all) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	m := f.all[f.next]
	f.next++
	f.given = true
	return message{MessageID: pulsar.NewMessageID(m.ledger, m.entry, m.batch, 0), size: m.size}, nil
}

func (f *flaky) Close() {}

// Whatever is lost or repeated when the client connects anew, a feed gives each message once, in
// order, and leaves none out; it is not held up by the real gaps, at the ends of ledgers and where
// retention has been.
func TestAFeedGivesEachMessageOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all []place
		var offsets []int64
		p := place{ledger: 3}
		for range rapid.IntRange(1, 12).Draw(t, "entries") {
			p.size = int32(rapid.IntRange(1, 4).Draw(t, "size"))
			for p.batch = 0; p.batch < p.size; p.batch++ {
				all = append(all, p)
				offsets = append(offsets, p.offset(t))
			}
			p.batch = 0
			if rapid.IntRange(0, 3).Draw(t, "ledger ends") == 0 {
				p.ledger, p.entry = p.ledger+1, -1
			}
			p.entry++
		}
		last := all[len(all)-1] // the end is not lost: more comes, and what was lost is missed then
		last.entry, last.batch, last.size = last.entry+1, 0, 1
		all, offsets = append(all, last), append(offsets, last.offset(t))
		first := rapid.IntRange(0, len(all)-1).Draw(t, "first")
		open := func(_ context.Context, from int64) (pulsar.Reader, error) {
			at, _ := slices.BinarySearch(offsets, from)
			return &flaky{t: t, all: all, next: at}, nil
		}
		f, err := newFeed(context.Background(), open, offsets[first])
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for f.from <= offsets[len(offsets)-1] {
			m, offset, behind, err := f.next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if m != nil {
				got = append(got, offset)
			}
			if behind <= offset {
				t.Fatalf("behind %d is %d", offset, behind)
			}
		}
		if !slices.Equal(got, offsets[first:]) {
			t.Fatalf("from %d on it gave %v, want %v", offsets[first], got, offsets[first:])
		}
	})
}
