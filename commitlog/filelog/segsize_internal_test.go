package filelog

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// A file of a segment can have any size, and holes: no more of it is read than a segment can have.
func TestASegmentIsReadNoFurtherThanOneGoes(t *testing.T) {
	t.Parallel()
	if most := int64(mostInSegment + 2*segment.MaxHeader); most > limits.SegmentFileBytes {
		t.Errorf("a segment can have %d bytes, and %d are read", most, limits.SegmentFileBytes)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	disk, err := vfs.OpenOS(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = disk.Close() }()
	for size, want := range map[int64]int64{1 << 20: 1 << 20, limits.SegmentFileBytes: limits.SegmentFileBytes, 1 << 40: limits.SegmentFileBytes} {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		f, err := disk.OpenFile("f", os.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := segmentSize(f); err != nil || got != want {
			t.Errorf("of a file of %d bytes %d are read, %v; expected %d", size, got, err, want)
		}
		_ = f.Close()
	}
}
