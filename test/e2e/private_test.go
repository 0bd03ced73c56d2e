package e2e_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/internal/testserver"
)

// used makes a data directory with a record and a group's progress in it, and returns what is there.
func used(t *testing.T) (dir string, paths []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	use(t, ringfence.Config{Dir: dir})
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	must(t, err)
	return dir, paths
}

func use(t *testing.T, c ringfence.Config) {
	t.Helper()
	must(t, tryUse(t, c))
}

// tryUse opens a client, makes a topic and stores a record.
func tryUse(t *testing.T, c ringfence.Config) error {
	t.Helper()
	rf, err := ringfence.Open(t.Context(), c)
	if err != nil {
		return err
	}
	err = rf.EnsureTopic(t.Context(), "t", ringfence.TopicConfig{Partitions: 2})
	if err == nil {
		_, err = rf.Produce(t.Context(), "t", ringfence.Message{Value: []byte("v")})
	}
	return errors.Join(err, rf.Close())
}

func TestADataDirectoryIsForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	_, paths := used(t)
	for _, path := range paths {
		info, err := os.Lstat(path)
		must(t, err)
		if info.Mode().Perm()&0o077 != 0 && info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s is %s; expected that nobody else can open it", path, info.Mode())
		}
	}
}

// refused is an error that says what to do; the flag and the parameter of the URL take it as it is.
func refused(t *testing.T, dir, what string, says ...string) {
	t.Helper()
	err := tryUse(t, ringfence.Config{Dir: dir})
	if !errors.Is(err, ringfence.ErrInvalid) {
		t.Fatalf("%s: %v; expected it to be refused", what, err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %q does not say %q", what, err, s)
		}
	}
	if err := tryUse(t, ringfence.Config{Dir: dir, AllowShared: true}); err != nil {
		t.Errorf("%s, which is allowed: %v", what, err)
	}
	u := "file://" + dir + "?allow-shared=true"
	if err := tryUse(t, ringfence.Config{Log: u, Registry: u}); err != nil {
		t.Errorf("%s, which the URL allows: %v", what, err)
	}
}

func TestOpenRefusesADirectoryOpenToOtherUsers(t *testing.T) {
	t.Parallel()
	dir, _ := used(t)
	must(t, os.Chmod(dir, 0o705))
	refused(t, dir, "an open directory", dir+" (mode 0705)", "chmod go=")
	must(t, os.Chmod(dir, 0o700))
	use(t, ringfence.Config{Dir: dir})
}

// A copy by hard links shares the files of a directory that grows on, and each of the two would go on by files of
// its own.
func TestACopyByHardLinksIsRefused(t *testing.T) {
	t.Parallel()
	dir, _ := used(t)
	linked, whole := dir+"-linked", dir+"-whole"
	for _, args := range [][]string{{"-al", dir, linked}, {"-a", linked, whole}} {
		if out, err := exec.CommandContext(t.Context(), "cp", args...).CombinedOutput(); err != nil {
			t.Fatalf("cp %v: %v: %s", args, err, out)
		}
	}
	refused(t, linked, "a copy by hard links", "has 2 names", "cp -a")
	refused(t, dir, "what it is a copy of", "has 2 names")
	use(t, ringfence.Config{Dir: whole})
	must(t, os.RemoveAll(linked))
	use(t, ringfence.Config{Dir: dir})
}

func TestOpenRefusesADirectoryOfAnotherUser(t *testing.T) {
	t.Parallel()
	stranger := testserver.Stranger(t)
	dir, _ := used(t)
	must(t, os.Chown(dir, stranger, -1))
	refused(t, dir, "a directory of another user", dir+" belongs to another user")
	empty := t.TempDir()
	must(t, os.Chown(empty, stranger, -1))
	refused(t, empty, "an empty one", empty+" belongs to another user")
}

func TestAnEmptyDirectoryOfOursIsClosedToOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o700)) // a disk of its own has that
	var log testlog.Buffer
	use(t, ringfence.Config{Dir: dir, Logger: log.Logger()})
	info, err := os.Stat(dir)
	must(t, err)
	if info.Mode().Perm() != 0o700 || !strings.Contains(log.String(), "open to other users") {
		t.Errorf("mode %s, and logged %q; expected 0700, and a line that says so", info.Mode(), log.String())
	}
}
