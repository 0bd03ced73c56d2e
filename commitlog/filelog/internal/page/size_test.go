package page

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/internal/vfs"
)

// What is mapped gets its blocks: a page that somebody made large must not take the disk.
func TestALargeFileIsMappedAsFarAsAPageGoes(t *testing.T) {
	t.Parallel()
	const large = 64 << 20
	dir := t.TempDir()
	path := filepath.Join(dir, "control")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, large); err != nil {
		t.Fatal(err)
	}
	disk, err := vfs.OpenOS(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = disk.Close() }()
	p, err := Open(t.Context(), disk, "control", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Blocks*512 > 1<<20 {
		t.Errorf("the page takes %d bytes of the disk", st.Blocks*512)
	}
	if want := Size(mostPartitions); int64(len(p.b)) != want {
		t.Errorf("%d bytes are mapped; expected %d", len(p.b), want)
	}
	p.Adopt(1, 1<<32+4096, []int64{3, 4})
	if p.First(1) != 4 {
		t.Errorf("the first offset is %d; expected 4", p.First(1))
	}
}
