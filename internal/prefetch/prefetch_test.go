package prefetch

import (
	"bytes"
	"testing"
)

func TestItChangesNothing(t *testing.T) {
	t.Parallel()
	want := bytes.Repeat([]byte{7}, 10_000)
	b := bytes.Clone(want)
	for n := range 300 {
		Bytes(b[n : n*30])
	}
	Bytes(nil)
	Bytes(b[len(b)-1:])
	if !bytes.Equal(b, want) {
		t.Fatal("memory was changed")
	}
}
