package pulsarlog

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/internal/fault"
)

func TestOffsetsKeepTheOrderOfMessageIDs(t *testing.T) {
	t.Parallel()
	type id struct {
		ledger, entry int64
		batch         int32
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) id {
			return id{
				rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(maxLedger-2, maxLedger)).Draw(t, name+" ledger"),
				rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(maxEntry-2, maxEntry)).Draw(t, name+" entry"),
				rapid.OneOf(rapid.Int32Range(0, 3), rapid.Int32Range(maxBatch-2, maxBatch)).Draw(t, name+" batch"),
			}
		}
		less := func(a, b id) bool {
			if a.ledger != b.ledger {
				return a.ledger < b.ledger
			}
			if a.entry != b.entry {
				return a.entry < b.entry
			}
			return a.batch < b.batch
		}
		a, b := draw("a"), draw("b")
		x, err1 := pack(a.ledger, a.entry, a.batch)
		y, err2 := pack(b.ledger, b.entry, b.batch)
		if err1 != nil || err2 != nil || x < 0 || (x < y) != less(a, b) || (x == y) != (a == b) {
			t.Fatalf("%v is %d (%v), %v is %d (%v)", a, x, err1, b, y, err2)
		}
		if l, e := unpack(x); l != a.ledger || e != a.entry {
			t.Fatalf("%d unpacks to %d:%d; want %v", x, l, e, a)
		}
		if behind, err := after(a.ledger, a.entry); err == nil && behind <= x {
			t.Fatalf("%d stands behind all of %v, which is %d", behind, a, x)
		}
	})
}

func TestAMessageIDThatDoesNotFitIsAnError(t *testing.T) {
	t.Parallel()
	for _, id := range [][3]int64{{maxLedger + 1, 0, 0}, {0, maxEntry + 1, 0}, {0, 0, maxBatch + 1}, {-1, 0, 0}, {0, -1, 0}} {
		if at, err := pack(id[0], id[1], int32(id[2])); !errors.Is(err, fault.Invalid) {
			t.Errorf("%v became %d, %v", id, at, err)
		}
	}
}
