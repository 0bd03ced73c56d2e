package e2e_test

import (
	"reflect"
	"testing"

	"github.com/ringfence/ringfence"
)

// Messages are allocated 46 at a time, in 8 KiB, of which the allocator takes a word: one word more in each
// would make it 9 KiB for every 46 records that are consumed.
func TestAMessageIsNoLargerThanItsPartOfASlab(t *testing.T) {
	t.Parallel()
	const slab, word, values = 8 << 10, 8, 46
	if size := reflect.TypeFor[ringfence.Message]().Size(); values*size+word > slab {
		t.Errorf("a Message has %d bytes, and %d of them do not fit into %d; put what few messages have behind the pointer that is there for it", size, values, slab)
	}
}
