package ringfence_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence"
)

func TestADataDirectoryIsForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer rf.Close()
	if err := rf.EnsureTopic(t.Context(), "t", ringfence.TopicConfig{Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := rf.Produce(t.Context(), "t", ringfence.Message{Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 && info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s is %s; expected that nobody else can open it", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
