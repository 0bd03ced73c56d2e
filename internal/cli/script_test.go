package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// exits runs a command that must end with an exit code: exits 3 ringfence topic describe x.
// Its output is for the stdout and stderr commands, as that of exec.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("%s: exit code %d; expected %d", strings.Join(args[1:], " "), got, want)
	}
}

// powerless is exits for ringfence run by a user without rights: powerless exits 1 topic list.
func powerless(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || args[0] != "exits" {
		ts.Fatalf("usage: powerless exits CODE ARG...")
	}
	exits(ts, false, append([]string{args[1], "powerless-ringfence"}, args[2:]...))
}

// dropRights makes this process one of a user without files, unless it is none of the superuser.
func dropRights() error {
	if os.Geteuid() != 0 {
		return nil
	}
	const nobody = 65534
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
		return fmt.Errorf("become a user without rights: %w", err)
	}
	return nil
}

// mkfifo makes a pipe with a name.
func mkfifo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: mkfifo NAME")
	}
	ts.Check(syscall.Mkfifo(ts.MkAbs(args[0]), 0o600))
}

// big writes a file: big FILE BYTES of the letter x, with one newline at the end; with "nul" as
// third argument a key with a NUL byte and ":value" follow as a line of their own.
func big(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: big FILE BYTES [nul]")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	content := append(bytes.Repeat([]byte("x"), n), '\n')
	if len(args) == 3 {
		content = []byte("a\x00b:value\n\xff\xfe:\xfd\n")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), content, 0o600))
}

// match counts lines of a file that hold a text: match FILE N TEXT.
func match(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: match FILE N TEXT")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	got := 0
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if strings.Contains(line, args[2]) {
			got++
		}
	}
	if got != want {
		ts.Fatalf("%s: %d lines hold %q; expected %d", args[0], got, args[2], want)
	}
}

// flip changes one bit of the only place below a directory that holds a text: flip DIR TEXT.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip DIR TEXT")
	}
	found := 0
	err := filepath.WalkDir(ts.MkAbs(args[0]), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := bytes.Index(b, []byte(args[1]))
		if at < 0 {
			return nil
		}
		found++
		b[at] ^= 1
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(b[at:at+1], int64(at))
		return errors.Join(err, f.Close())
	})
	ts.Check(err)
	if found != 1 {
		ts.Fatalf("%d files hold %q; expected 1", found, args[1])
	}
}

// await waits until a file exists, which a command that was started in the background makes.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for range 4000 {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		<-look.C
	}
	ts.Fatalf("%s did not appear within 20 s", args[0])
}
