package cli

import (
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/group/protocol/protocoltest"
)

// terminal is a new pseudo terminal: the side that programs write to, and a function that ends it
// and returns what was written.
func terminal(t *testing.T) (*os.File, func() string) {
	t.Helper()
	screen, program := openTerminal(t)
	shown := make(chan string)
	go func() { // joined by the function
		all, _ := io.ReadAll(screen) // EIO: the program's side is closed
		shown <- string(all)
	}()
	return program, func() string {
		_ = program.Close()
		defer screen.Close()
		return <-shown
	}
}

// openTerminal is a new pseudo terminal: the side that is looked at, and that of programs.
func openTerminal(t *testing.T) (screen, program *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := screen.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	var failed error
	if err := raw.Control(func(fd uintptr) {
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed == nil {
			number, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return screen, program
}

// hostile is what a stranger may give for a name or a value: it sets the title, turns the
// direction, and begins a sequence in the one-byte way.
const hostile = "x\x1b]0;title\x07\u009b2J\x7f\u202e"

// plant makes a topic with a record and a group with a member, which say hostile things.
func plant(t *testing.T, dir string) {
	t.Helper()
	ctx := t.Context()
	rf, err := ringfence.Open(ctx, ringfence.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rf.Close() })
	if err := rf.EnsureTopic(ctx, "t", ringfence.TopicConfig{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := rf.Produce(ctx, "t", ringfence.Message{Key: []byte(hostile), Value: []byte(hostile)}); err != nil {
		t.Fatal(err)
	}
	g, err := protocol.NewGroup(rf.Registry(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.EnsureMeta(ctx, protocol.Meta{Topic: "t", Units: 1}); err != nil {
		t.Fatal(err)
	}
	s, err := rf.Registry().OpenSession(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	m := protocol.Member{ID: "m", Incarnation: hostile + "\nFAKE", Host: hostile + "\nFAKE", Zone: hostile + "\nFAKE"}
	if _, err := protocoltest.Join(ctx, g, s, m); err != nil {
		t.Fatal(err)
	}
}

func TestTerminalObeysNoForeignText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plant(t, dir)
	for name, c := range map[string]struct {
		args  []string
		shows bool // something of what the stranger said
	}{
		"describe": {[]string{"group", "describe", "g"}, true},
		"document": {[]string{"group", "describe", "g", "--format", "json"}, true},
		"top":      {[]string{"top", "--count", "1"}, false},
		"value":    {[]string{"tail", "t", "--from", "earliest", "--max", "1", "--print", "value"}, true},
		"record":   {[]string{"tail", "t", "--from", "earliest", "--max", "1"}, true},
		"consumed": {[]string{"consume", "t", "--group", "other", "--max", "1", "--print", "value"}, true},
		"dump":     {[]string{"log", "dump", "--records"}, true},
		"error":    {[]string{"topic", "describe", hostile}, true},
		"usage":    {[]string{"topic", hostile}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, end := terminal(t)
			a := newApp(strings.NewReader(""), program, program)
			a.run(t.Context(), append(c.args, "--data", dir))
			shown := end()
			for _, bad := range []string{"\x1b]", "\x07", "\u009b", "\x7f", "\u202e", "\nFAKE"} {
				if strings.Contains(shown, bad) {
					t.Errorf("%q came through in\n%q", bad, shown)
				}
			}
			if c.shows && !strings.Contains(shown, "]0;title") {
				t.Errorf("what was said is not shown in\n%q", shown)
			}
		})
	}
}

func TestLoggerShowsForeignSequences(t *testing.T) {
	t.Parallel()
	var errs strings.Builder
	newApp(nil, io.Discard, &errs).logger().Warn(hostile, "host", hostile, "a"+hostile, 1)
	if got := errs.String(); strings.ContainsAny(got, "\x1b\x07\x7f\u009b\u202e") || !strings.Contains(got, "]0;title") {
		t.Errorf("logged %q", got)
	}
}

// What reads JSON first may have a terminal behind it (head, tee, jq): it is safe everywhere, and the same document.
// A program that reads the values gets their bytes.
func TestRecordsBehindAPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plant(t, dir)
	for _, line := range []string{"tail t --from earliest --max 1", "consume t --group json --max 1"} {
		args := append(strings.Fields(line), "--data", dir)
		code, stdout, stderr := runLine(t, args...)
		var d struct{ Key, Value string }
		err := json.Unmarshal([]byte(stdout), &d)
		if code != 0 || err != nil || d.Key != hostile || d.Value != hostile || strings.ContainsAny(stdout, "\u009b\x7f\u202e") {
			t.Errorf("%s: exit code %d, %q, %v, %s", line, code, stdout, err, stderr)
		}
		args = append(args, "--print", "value")
		if args[0] == "consume" {
			args = append(args, "--group", "values")
		}
		if code, stdout, stderr := runLine(t, args...); code != 0 || stdout != hostile+"\n" {
			t.Errorf("%s: exit code %d, %q, %s", line, code, stdout, stderr)
		}
	}
}
