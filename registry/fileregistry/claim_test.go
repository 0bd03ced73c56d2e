package fileregistry

import (
	"errors"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/memtest"
)

// A header may claim a snapshot of any size, with a checksum that is right: there is memory only for
// what is there.
func TestTheLengthThatASnapshotClaimsIsNotBelieved(t *testing.T) {
	files := image(t, 12)
	newest := ""
	var last header
	for _, name := range []string{"journal-0", "journal-1"} {
		if h, err := decodeHeader(files[name]); err == nil && h.gen >= last.gen {
			newest, last = name, h
		}
	}
	for _, claim := range []uint64{uint64(len(files[newest])), limits.RegistryBytes, limits.RegistryBytes + 1, 1 << 40} {
		h := last
		h.snapLen = claim
		b := append(h.page(), files[newest][pageSize:]...)
		m := machineOf(t, with(files, newest, b))
		memtest.AtMost(t, 64<<20, claim, func() {
			r, err := openFS(t, m)
			if !errors.Is(err, fault.Corrupt) {
				t.Errorf("a snapshot of %d bytes is claimed: %v; expected damage", claim, err)
			}
			if err == nil {
				r.Close()
			}
		})
	}
}
