package filelog_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/vfs"
)

func TestOpenReportsEveryMistakeAtOnce(t *testing.T) {
	t.Parallel()
	_, err := filelog.Open(t.Context(), filelog.Config{SegmentBytes: 5, BufferBytes: -1, Options: driver.Options{Durability: "maybe"}})
	if !errors.Is(err, commitlog.ErrInvalid) {
		t.Fatal(err)
	}
	for _, word := range []string{"Dir or FS", "SegmentBytes", "BufferBytes", "Durability"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
}

func TestOpenRefusesFileSystemsItCantWorkOn(t *testing.T) {
	t.Parallel()
	for kind, want := range map[vfs.Kind]string{
		{Type: "nfs", Network: true}:       "network file system (nfs)",
		{Type: "squashfs", ReadOnly: true}: "read-only file system",
	} {
		mem := vfs.NewMem(1)
		mem.SetKind(kind)
		_, err := filelog.Open(t.Context(), filelog.Config{FS: mem})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("on %+v: %v; want %q", kind, err, want)
		}
	}
}

func TestOpenRefusesANewerFormat(t *testing.T) {
	t.Parallel()
	c := filelog.Config{Dir: t.TempDir()}
	open(t, c)
	file := filepath.Join(c.Dir, "log", "FORMAT")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(string(b), " 1", " 2", 1)
	for text, want := range map[string]error{newer: commitlog.ErrInvalid, "something else": commitlog.ErrCorrupt} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		word := "not a file of Ringfence"
		if text == newer {
			word = "upgrade"
		}
		if _, err := filelog.Open(t.Context(), c); !errors.Is(err, want) || !strings.Contains(err.Error(), word) {
			t.Errorf("FORMAT %q: %v; want %v, with %q", text, err, want, word)
		}
	}
}

func TestOpenInAFileSaysSo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := filelog.Open(t.Context(), filelog.Config{Dir: file}); !errors.Is(err, commitlog.ErrInvalid) {
		t.Errorf("opened a file: %v", err)
	}
}
