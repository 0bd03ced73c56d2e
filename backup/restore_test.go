package backup_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

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

// A segment that retention dropped while it was copied is in the archive, and not in its manifest: it is not put back.
// And what is not as the manifest says is refused, be the copy sound otherwise.
func TestRestoreGoesByTheManifest(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	must(t, err)
	out := tar.NewWriter(z)
	put := func(name string, content []byte) {
		must(t, out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o600}))
		_, err := out.Write(content)
		must(t, err)
	}
	dec, err := zstd.NewReader(bytes.NewReader(archived(t)))
	must(t, err)
	defer dec.Close()
	for in := tar.NewReader(dec); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		content, err := io.ReadAll(in)
		must(t, err)
		if head.Name == "MANIFEST" {
			put("log/topics/dropped", []byte("meanwhile"))
		}
		put(head.Name, content)
	}
	must(t, errors.Join(out.Close(), z.Close()))
	dir, kept := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "kept")
	_, err = backup.RestoreStream(t.Context(), &b, dir, nil)
	must(t, err)
	if _, err := os.Stat(filepath.Join(dir, "log", "topics", "dropped")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what the manifest does not have is there: %v", err)
	}
	must(t, os.Mkdir(kept, 0o700))
	_, err = backup.Save(t.Context(), backup.Source{Log: dir, Registry: dir}, kept, nil)
	must(t, err)
	segments, err := filepath.Glob(filepath.Join(kept, "log", "topics", "*", "*.seg"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("the backup has the segments %v, %v", segments, err)
	}
	content, err := os.ReadFile(segments[0])
	must(t, err)
	content[len(content)/2] ^= 1
	must(t, os.WriteFile(segments[0], content, 0o600))
	if _, err := backup.Restore(t.Context(), kept, dir+"2", nil); !errors.Is(err, fault.Corrupt) {
		t.Errorf("with a flipped bit: %v; expected that it is refused", err)
	}
}
