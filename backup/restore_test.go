package backup_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backup"
	"github.com/ringfence/ringfence/internal/fault"
)

// archived is a backup of a small directory.
func archived(t *testing.T) []byte {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Dir: dir})
	must(t, err)
	defer rf.Close()
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 2}))
	_, err = rf.Produce(t.Context(), "orders", ringfence.Message{Value: []byte("a record")})
	must(t, err)
	var b bytes.Buffer
	_, err = backup.Stream(t.Context(), backup.Source{Log: dir, Registry: dir}, &b, nil)
	must(t, err)
	return b.Bytes()
}

func TestRestoreRefusesATornOrDamagedArchiveAndLeavesNothing(t *testing.T) {
	t.Parallel()
	whole := archived(t)
	dir := filepath.Join(t.TempDir(), "data")
	refused := func(what string, at int, b []byte) {
		t.Helper()
		_, err := backup.RestoreStream(t.Context(), bytes.NewReader(b), dir, nil)
		if what == "flipped" && err == nil { // in a bit that says nothing: all checksums are as they were
			must(t, os.RemoveAll(dir))
			return
		}
		if !errors.Is(err, fault.Corrupt) && !errors.Is(err, fault.Invalid) {
			t.Errorf("%s at byte %d of %d: %v; expected it to be refused", what, at, len(whole), err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s at byte %d: something is left in the directory", what, at)
		}
	}
	for at := 0; at < len(whole); at += max(1, len(whole)/50) {
		refused("cut", at, whole[:at])
		flipped := bytes.Clone(whole)
		flipped[at] ^= 0x10
		refused("flipped", at, flipped)
	}
	refused("cut", len(whole)-1, whole[:len(whole)-1])
	_, err := backup.RestoreStream(t.Context(), bytes.NewReader(whole), dir, nil)
	must(t, err)
}

func TestAnInterruptedBackupOrRestoreLeavesNothing(t *testing.T) {
	t.Parallel()
	whole := archived(t)
	dir := filepath.Join(t.TempDir(), "data")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	after := &backup.Options{Progress: func(bytes int64) {
		if bytes > 1000 {
			cancel()
		}
	}}
	if _, err := backup.RestoreStream(ctx, bytes.NewReader(whole), dir, after); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; expected that it was called off", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("an interrupted restore left something")
	}
	_, err := backup.RestoreStream(t.Context(), bytes.NewReader(whole), dir, nil)
	must(t, err)
	for _, name := range []string{"file", "dir"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		after := &backup.Options{Progress: func(int64) { cancel() }}
		to := filepath.Join(t.TempDir(), name)
		if name == "dir" {
			must(t, os.Mkdir(to, 0o700))
		}
		if _, err := backup.Save(ctx, backup.Source{Log: dir, Registry: dir}, to, after); !errors.Is(err, context.Canceled) {
			t.Errorf("%v; expected that it was called off", err)
		}
		left, err := filepath.Glob(filepath.Join(filepath.Dir(to), "*"))
		inside, _ := os.ReadDir(to)
		if err != nil || len(inside) > 0 || name == "file" && len(left) > 0 {
			t.Errorf("an interrupted backup left %v %v, %v", left, inside, err)
		}
	}
}
