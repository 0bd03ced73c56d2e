package access

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/testserver"
)

// both are a file as it is judged by its name, and as it is judged when it is open.
func both(t *testing.T, path string) map[string]File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	opened, err := Opened(f)
	if err != nil {
		t.Fatal(err)
	}
	named, err := Named(path)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]File{"opened": opened, "named": named}
}

// The bits of a group are the most that anybody on a list of rights has: they are not those of a group
// that is the owner's alone.
func TestTheBitsOfAListOfRightsAreNotForgiven(t *testing.T) {
	t.Parallel()
	yes := func(uint32, uint32) bool { return true }
	no := func(uint32, uint32) bool { return false }
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o660), os.Chmod(dir, 0o770)); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, dir} {
		for how, f := range both(t, p) {
			if got := f.others(ToWrite, yes); got != 0 {
				t.Errorf("%s, %s: %o for a group of the owner's own", p, how, got)
			}
			if got := f.others(ToWrite, no); got != 0o020 {
				t.Errorf("%s, %s: %o for another group", p, how, got)
			}
		}
	}
	testserver.Share(t, path)
	testserver.Share(t, dir)
	for _, p := range []string{path, dir} {
		for how, f := range both(t, p) {
			if got := f.others(ToWrite, yes); got != 0o020 {
				t.Errorf("%s, %s: %o for those on a list of rights; expected that they can write", p, how, got)
			}
			if !strings.HasSuffix(f.Octal(), "+") {
				t.Errorf("%s, %s: %s does not show that there is a list", p, how, f.Octal())
			}
		}
	}
	if err := os.Chmod(path, 0o600); err != nil { // what the messages tell to do
		t.Fatal(err)
	}
	for how, f := range both(t, path) {
		if f.Others(ToAny) != 0 || f.Exposed() != "" || f.Octal() != "0600" {
			t.Errorf("%s: %o, %q for a list that allows nothing any more", how, f.Others(ToAny), f.Exposed())
		}
	}
}

func TestASecretIsExposedByAListOfRights(t *testing.T) {
	t.Parallel()
	testserver.Stranger(t) // root's files may be open to a group
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	for how, f := range both(t, path) {
		if got := f.Exposed(); got != "" {
			t.Errorf("%s: root's file for a group is exposed %s", how, got)
		}
	}
	testserver.Share(t, path)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	for how, f := range both(t, path) {
		if got := f.Exposed(); !strings.Contains(got, "0640+") {
			t.Errorf("%s: %q; expected that those on the list can read it", how, got)
		}
	}
}

// To close it is no help when its owner is who must not read it.
func TestWhatMendsAnExposedFileDependsOnItsOwner(t *testing.T) {
	t.Parallel()
	stranger := testserver.Stranger(t)
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o604); err != nil {
		t.Fatal(err)
	}
	for owner, want := range map[int]string{os.Geteuid(): "chmod 600", stranger: "a copy of your own"} {
		if err := os.Chown(path, owner, -1); err != nil {
			t.Fatal(err)
		}
		for how, f := range both(t, path) {
			if got := f.Mend(); f.Exposed() == "" || !strings.Contains(got, want) {
				t.Errorf("%s: a file of %d is exposed %s, and told is %q; expected %q", how, owner, f.Exposed(), got, want)
			}
		}
	}
}

func TestAGroupIsOneUsersAloneWhenNobodyElseIsInIt(t *testing.T) {
	t.Parallel()
	const users = "root:x:0:0::/:/bin/sh\nwww-data:x:33:33::/:\nann:x:1000:1000::/home/ann:/bin/sh\nann2:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:1001:::\ncid:x:1002:1002:::\ndan:x:1003:1002:::\nnobody:x:65534:65534:::\neve:x:1005:1005:::\nbroken\n"
	const groups = "root:x:0:\nwww-data:x:33:\nann:x:1000:ann,ann2\nbob:x:1001:ann\ncid:x:1002:\nnogroup:x:65534:\neve:x:1005:\nstaff:x:1005:bob\nbroken\n"
	for id, want := range map[uint32]bool{
		1000:  true,
		1001:  false, // ann is in it
		1002:  false, // it is dan's first one
		1004:  false, // not known
		1005:  false, // by another name bob is in it
		33:    false, // a service's
		0:     false,
		65534: false,
	} {
		if got := alone(id, id, groups, users); got != want {
			t.Errorf("group %d is its user's alone: %t", id, got)
		}
	}
	if alone(1001, 1000, groups, users) {
		t.Error("a group of somebody else passed for bob's")
	}
}

// A file system that is not the kernel's has no users.
func TestAFileWithoutUsersIsOpenToNobodyElse(t *testing.T) {
	t.Parallel()
	f := File{noUsers{}, func() bool { return true }}
	if f.Others(ToAny) != 0 || f.Exposed() != "" || Owner(f) != -1 || Stranger(f) != "" || Above(f) != "" {
		t.Error("a file without users is judged by them")
	}
}

type noUsers struct{ fs.FileInfo }

func (noUsers) Mode() fs.FileMode { return 0o777 }
func (noUsers) Sys() any          { return nil }
