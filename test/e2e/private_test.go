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
	if err != nil {
		t.Fatal(err)
	}
	return dir, paths
}

func use(t *testing.T, c ringfence.Config) {
	t.Helper()
	if err := tryUse(t, c); err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
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

func TestADirectoryThatOthersCanOpenIsRefusedWithWhatMendsIt(t *testing.T) {
	t.Parallel()
	dir, paths := used(t)
	mend := "chmod -R go= " + dir
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&fs.ModeSymlink != 0 || filepath.Dir(path) == filepath.Join(dir, "log", "tmp") {
			continue
		}
		must(t, os.Chmod(path, info.Mode().Perm()|0o004))
		refused(t, dir, path, path, mend)
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", mend).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", mend, err, out)
		}
		use(t, ringfence.Config{Dir: dir})
	}
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

func TestADirectoryOfAnotherUserIsRefused(t *testing.T) {
	t.Parallel()
	stranger := testserver.Stranger(t)
	dir, paths := used(t)
	for _, path := range paths {
		must(t, os.Lchown(path, stranger, -1))
		refused(t, dir, path, path+" belongs to nobody", "chown -R 0 "+dir)
		must(t, os.Lchown(path, 0, -1))
	}
	empty := t.TempDir()
	must(t, os.Chmod(empty, 0o777))
	must(t, os.Chown(empty, stranger, -1))
	refused(t, empty, "an empty one", "belongs to nobody")

	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	use(t, ringfence.Config{Dir: link})
	must(t, os.Lchown(link, stranger, -1))
	refused(t, link, "a link", link+" is a link that nobody")
}

// A directory with another purpose, as / and /etc, is not to be closed by whoever follows the message.
func TestNoCommandClosesADirectoryThatIsNotOurs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "passwd"), nil, 0o644))
	must(t, os.Chmod(dir, 0o755))
	err := tryUse(t, ringfence.Config{Dir: dir})
	if !errors.Is(err, ringfence.ErrInvalid) || strings.Contains(err.Error(), "chmod") {
		t.Errorf("%v; expected it to be refused, without a command", err)
	}
	refused(t, dir, "a directory with another purpose", "not ours", "such as "+filepath.Join(dir, "ringfence-data"))
}

func TestADirectoryThatOthersCouldReplaceIsRefused(t *testing.T) {
	t.Parallel()
	dir, _ := used(t)
	above := filepath.Dir(dir)
	must(t, os.Chmod(above, 0o757))
	refused(t, dir, "below a directory of everybody", "chmod o-w "+above)
	must(t, os.Chmod(above, 0o757|fs.ModeSticky)) // as /tmp
	use(t, ringfence.Config{Dir: dir})
}

// Whoever owns a directory or a link on the way can lead it elsewhere at any time. Whole systems give
// each customer a place that somebody else owns, so a directory is told; a link is refused.
func TestTheWayToADirectoryIsLookedAt(t *testing.T) {
	t.Parallel()
	stranger := testserver.Stranger(t)
	dir, _ := used(t)
	above := filepath.Dir(dir)
	told := func(c ringfence.Config) string {
		t.Helper()
		var log testlog.Buffer
		c.Logger = log.Logger()
		use(t, c)
		return log.String()
	}
	must(t, os.Chown(above, stranger, -1))
	for _, mode := range []fs.FileMode{0o755, 0o777 | fs.ModeSticky} { // of a sticky one the owner may rename all that is in it
		must(t, os.Chmod(above, mode))
		if got := told(ringfence.Config{Dir: dir}); !strings.Contains(got, "owner=\"nobody") || !strings.Contains(got, "chown 0 "+above) {
			t.Errorf("mode %s, below a directory of a stranger: %q", mode, got)
		}
		if got := told(ringfence.Config{Dir: dir, AllowShared: true}); got != "" {
			t.Errorf("mode %s, which is allowed: %q", mode, got)
		}
	}
	must(t, os.Chmod(above, 0o777))
	refused(t, dir, "below a directory of a stranger that is everybody's", "chmod o-w "+above)
	must(t, os.Chmod(above, 0o755))
	must(t, os.Chown(above, 0, -1))
	if got := told(ringfence.Config{Dir: dir}); got != "" {
		t.Errorf("below a directory of root: %q", got)
	}

	links := t.TempDir()
	link := filepath.Join(links, "link")
	must(t, os.Symlink(above, link))
	own := filepath.Join(links, "own")
	must(t, os.Symlink("link/"+filepath.Base(dir), own))
	use(t, ringfence.Config{Dir: filepath.Join(link, filepath.Base(dir))})
	use(t, ringfence.Config{Dir: own})
	must(t, os.Lchown(link, stranger, -1))
	refused(t, filepath.Join(link, filepath.Base(dir)), "a link on the way", link+" is a link that nobody")
	refused(t, own, "a link to a link on the way", link+" is a link that nobody")

	// Nothing is made where such a link leads to.
	elsewhere := t.TempDir()
	must(t, os.Remove(link))
	must(t, os.Symlink(elsewhere, link))
	must(t, os.Lchown(link, stranger, -1))
	if _, err := ringfence.Open(t.Context(), ringfence.Config{Dir: filepath.Join(link, "new/data")}); err == nil {
		t.Error("a directory behind a link of a stranger was made")
	}
	if made, err := os.ReadDir(elsewhere); err != nil || len(made) > 0 {
		t.Errorf("what was made behind a link of a stranger: %v, %v", made, err)
	}
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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
