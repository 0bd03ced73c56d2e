//go:build linux

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/ringfence/ringfence/internal/access"
	"github.com/ringfence/ringfence/internal/fault"
)

// What lies in a data directory is believed: offsets, owners, checkpoints. So nobody else may have
// put it there, or be able to change it or hold it up with a lock. What is made, is made for its
// owner alone; what is found is looked at before it is used.

// CreatePrivate is CreateOS of a directory for this user alone. One that is there and has something
// in it is refused (fault.Invalid, with what mends it) when another user owns it, could open it, or
// could put another one in its place; so is a link that another user made. One that is empty and
// ours is closed to others, which is logged. One with other things in it than those named known has
// another purpose (/, /etc, a home), and no command is shown that would close it.
func CreatePrivate(dir string, log *slog.Logger, known ...string) (*OS, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		err = checkAbove(abs, nil) // before anything is made where a link leads to
	}
	if err != nil {
		return nil, err
	}
	o, err := CreateOS(abs, 0o700)
	if err != nil {
		return nil, err
	}
	err = o.checkPurpose(known)
	if err == nil {
		err = errors.Join(o.narrow(log), CheckPrivate(o, Quoted(o.dir), "."), checkAbove(o.dir, log))
	}
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// checkPurpose refuses a directory that is not ours alone and holds things, none of them known.
func (o *OS) checkPurpose(known []string) error {
	info, err := o.Stat(".")
	if err != nil {
		return err
	}
	var why string
	if who := access.Stranger(info); who != "" {
		why = "belongs to " + who
	} else if info.Mode().Perm()&0o077 != 0 {
		why = "is open to other users (mode " + access.Octal(info) + ")"
	}
	list, err := o.ReadDir(".")
	if why == "" || err != nil || fresh(list) || slices.ContainsFunc(list, func(e fs.DirEntry) bool { return slices.Contains(known, e.Name()) }) {
		return err
	}
	return fmt.Errorf("%s %s, and what is in it is not ours: name a directory that is empty or not there yet, such as %s%s: %w",
		o.dir, why, filepath.Join(o.dir, "ringfence-data"), allowIt, fault.Invalid)
}

// fresh tells whether a directory with this content is empty, but for what a disk of its own has.
func fresh(list []fs.DirEntry) bool {
	return len(list) == 0 || len(list) == 1 && list[0].Name() == "lost+found"
}

// narrow closes an empty directory of ours to others.
func (o *OS) narrow(log *slog.Logger) error {
	info, err := o.Stat(".")
	if err != nil {
		return err
	}
	list, err := o.ReadDir(".")
	if err != nil || !fresh(list) || info.Mode().Perm()&0o077 == 0 || access.Stranger(info) != "" {
		return err
	}
	if err := o.root.Chmod(".", 0o700); err != nil {
		return err
	}
	log.Warn("the empty directory was open to other users, and is now for its owner alone", "dir", o.dir, "was", access.Octal(info))
	return nil
}

// CheckPrivate fails (fault.Invalid) unless each of the names below fsys belongs to this user and is
// closed to all others. whole is what the command in the message mends, quoted. A file system that is
// not the kernel's has no users.
func CheckPrivate(fsys FS, whole string, names ...string) error {
	for _, name := range names {
		info, err := fsys.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return err
		}
		if err := checkInfo(fsys.Path(name), info, whole, true); err != nil {
			return err
		}
	}
	return nil
}

// CheckPrivateIn is CheckPrivate of a directory and of all that lies directly in it. No file there may have
// another name besides.
func CheckPrivateIn(fsys FS, whole, name string) error {
	if err := CheckPrivate(fsys, whole, name); err != nil {
		return err
	}
	return checkFiles(fsys, name, func(path string, info fs.FileInfo) error {
		if err := checkInfo(path, info, whole, true); err != nil {
			return err
		}
		return checkAlone(path, info)
	})
}

// checkAlone refuses a file that is a part of another directory, too. The two have other files besides,
// which say where this one begins and ends: who works in one of them damages the other.
func checkAlone(path string, info fs.FileInfo) error {
	st, kernel := info.Sys().(*syscall.Stat_t)
	if !kernel || !info.Mode().IsRegular() || st.Nlink < 2 {
		return nil
	}
	return fmt.Errorf("%s has %d names, so it is a part of another directory, too (cp -al, rsync --link-dest?), and who works in one of them damages the other: copy this one and use the copy (cp -a), or remove the other%s: %w",
		path, st.Nlink, allowIt, fault.Invalid)
}

// CheckPrivateFiles is CheckPrivate of those of the files in a directory whose names which chooses.
// Where nobody else gets into the directory, only their owner counts.
func CheckPrivateFiles(fsys FS, whole, name string, which func(string) bool) error {
	info, err := fsys.Stat(name)
	if err != nil {
		return err
	}
	modes := info.Mode().Perm()&0o077 != 0
	return checkFiles(fsys, name, func(path string, info fs.FileInfo) error {
		if !which(info.Name()) {
			return nil
		}
		return checkInfo(path, info, whole, modes)
	})
}

func checkFiles(fsys FS, name string, check func(path string, info fs.FileInfo) error) error {
	list, err := fsys.ReadDir(name)
	if err != nil {
		return err
	}
	for _, e := range list {
		info, err := e.Info() // of a link itself
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = check(filepath.Join(fsys.Path(name), e.Name()), info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const allowShared = "; --allow-shared takes it as it is"

const allowIt = "; --allow-shared, or allow-shared=true in the URL, takes it as it is"

func checkInfo(path string, info fs.FileInfo, whole string, modes bool) error {
	if who := access.Stranger(info); who != "" {
		return fmt.Errorf("%s belongs to %s, and this process runs as %s: run it as that user, or, if you trust all that is in it, take it over (chown -R %d %s)%s: %w",
			path, who, access.UserName(os.Geteuid()), os.Geteuid(), whole, allowIt, fault.Invalid)
	}
	if _, kernel := info.Sys().(*syscall.Stat_t); modes && kernel && info.Mode().Perm()&0o077 != 0 && info.Mode()&fs.ModeSymlink == 0 {
		return fmt.Errorf("%s is open to other users (mode %s): run chmod -R go= %s%s: %w", path, access.Octal(info), whole, allowIt, fault.Invalid)
	}
	return nil
}

// OwnedAbove is the warning that tells of a directory on the way that another user owns.
const OwnedAbove = "another user owns a directory above this one, and can put another one in its place"

// checkAbove refuses a link on the way to the directory that another user made, and a directory above
// it that all can write to. One that another user owns, as where systems give each customer a place,
// is told to log. Root is nobody to be afraid of.
func checkAbove(dir string, log *slog.Logger) error {
	at, rest := "/", steps(dir)
	for links := 0; len(rest) > 0; {
		step := filepath.Join(at, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(step)
		if err != nil {
			return nil //nolint:nilerr // one that we can't look at; who can is not us
		}
		who := access.Above(info)
		if info.Mode()&fs.ModeSymlink != 0 {
			if who != "" {
				return fmt.Errorf("%s is a link that %s made: name the directory itself%s: %w", step, who, allowIt, fault.Invalid)
			}
			to, err := os.Readlink(step)
			if links++; err != nil || links > mostLinks {
				return errors.Join(err, fmt.Errorf("%s: too many links: %w", dir, fault.Invalid))
			}
			if rest = append(steps(to), rest...); filepath.IsAbs(to) {
				at = "/"
			}
			continue
		}
		if at = step; len(rest) == 0 {
			break
		}
		if who != "" && log != nil {
			log.Warn(OwnedAbove, "dir", dir, "above", step, "owner", who,
				"to_mend", fmt.Sprintf("chown %d %s, or name a directory elsewhere", os.Geteuid(), Quoted(step)), "to_accept", "--allow-shared")
		}
		if info.Mode()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("%s can be written to by everybody, who could put another directory in the place of %s: run chmod o-w %s%s: %w", step, dir, Quoted(step), allowIt, fault.Invalid)
		}
	}
	return nil
}

const mostLinks = 40 // as in the kernel

// steps are the names on a path; ".." is one of them.
func steps(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// CheckUnplanted fails (fault.Invalid) when another user could put a file at path or beside it, or
// everybody another directory in the place of the one that it is in.
func CheckUnplanted(path string, log *slog.Logger) error {
	dir := filepath.Dir(path)
	info, err := access.Named(dir)
	switch {
	case err != nil:
		return err
	case access.Owner(info) < 0:
		return nil
	case access.Owner(info) != 0 && access.Stranger(info) != "":
		return fmt.Errorf("%s, where %s is, belongs to %s: name a directory of your own%s: %w", dir, filepath.Base(path), access.Stranger(info), allowIt, fault.Invalid)
	case info.Mode()&fs.ModeSticky != 0 && info.Others(access.ToWrite) != 0: // /tmp, which has to stay what it is
		return fmt.Errorf("other users can put files into %s (mode %s), where %s is: name a directory of your own%s: %w", dir, info.Octal(), filepath.Base(path), allowIt, fault.Invalid)
	case info.Others(access.ToWrite) != 0:
		return fmt.Errorf("other users can put files into %s (mode %s), where %s is: run chmod go-w %s, or name a directory of your own%s: %w", dir, info.Octal(), filepath.Base(path), Quoted(dir), allowIt, fault.Invalid)
	}
	return checkAbove(dir, log)
}

// CheckWriters fails (fault.Invalid) when others than its owner could have written a file. The owner,
// when that is another user than this one and root, is told: who gives out files, such as those of a
// container, may be another user every day.
func CheckWriters(path string, file access.File) (other string, err error) {
	if !file.Mode().IsRegular() && file.Mode()&fs.ModeNamedPipe == 0 { // a terminal, for example
		return "", nil
	}
	if file.Others(access.ToWrite) != 0 {
		return "", fmt.Errorf("other users can write to %s (mode %s), and what is in it would be done by this user: run chmod go-w %s%s: %w", path, file.Octal(), Quoted(path), allowShared, fault.Invalid)
	}
	return access.Above(file), nil
}

var plain = regexp.MustCompile(`^[A-Za-z0-9@%+=:,./_-]+$`)

// Quoted is a path as a shell takes it.
func Quoted(path string) string {
	if plain.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
