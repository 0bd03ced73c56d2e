package fileregistry

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

func refused(t *testing.T, cfg Config, kind error, parts ...string) {
	t.Helper()
	r, err := Open(t.Context(), cfg)
	if err == nil {
		r.Close()
		t.Fatal("it was opened")
	}
	if !errors.Is(err, kind) {
		t.Fatalf("error %v, expected %v", err, kind)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("the message %q does not say %q", err, p)
		}
	}
}

func TestAFileInTheWayIsAnError(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, Config{Dir: file}, syscall.ENOTDIR, file)
}

func TestADirectoryWithoutRightsIsAnError(t *testing.T) {
	t.Parallel()
	denied := vfs.Inject(vfs.NewMem(1), func(op *vfs.Op) error { // root may write anywhere
		if op.Kind == vfs.OpMkdir {
			return syscall.EACCES
		}
		return nil
	})
	refused(t, Config{FS: denied}, fs.ErrPermission, "registry")
}

func TestANewerFormatIsRefusedAndNotTouched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	openDir(t, dir).Close()
	name := filepath.Join(dir, "registry", "FORMAT")
	newer := strings.Replace(formatText, "1", "2", 1)
	if err := os.WriteFile(name, []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, Config{Dir: dir}, fault.Invalid, "format 2", "newer", "upgrade", name)
	if got, _ := os.ReadFile(name); string(got) != newer {
		t.Fatalf("the format file was changed to %q", got)
	}
}

func TestAFormatFileOfSomebodyElseIsRefusedAndNotTouched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "registry", "FORMAT")
	if err := errors.Join(os.Chmod(dir, 0o700), os.Mkdir(filepath.Dir(name), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"npm cache v2\n", formatHead + "one\n", formatHead + "0\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, Config{Dir: dir}, fault.Corrupt, name, "not a file of Ringfence")
		if got, _ := os.ReadFile(name); string(got) != text {
			t.Fatalf("the format file was changed to %q", got)
		}
	}
}

func TestNetworkAndReadOnlyFileSystemsAreRefused(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	mem.SetKind(vfs.Kind{Type: "nfs", Network: true})
	refused(t, Config{FS: mem}, fault.Invalid, "nfs", "network")
	mem.SetKind(vfs.Kind{Type: "ext4", ReadOnly: true})
	refused(t, Config{FS: mem}, fault.Invalid, "read-only")
}

func TestATransactionThatIsTooLargeIsRefusedAlone(t *testing.T) {
	t.Parallel()
	r := openDir(t, t.TempDir())
	var huge registry.Txn
	for i := range maxTxn/registry.MaxValueBytes + 1 {
		huge.Puts = append(huge.Puts, registry.Put{Key: string(rune('a' + i)), Value: make([]byte, registry.MaxValueBytes)})
	}
	res, err := r.Apply(t.Context(), []registry.Txn{step(1), huge, step(2)})
	if err != nil || res[0].Err != nil || res[2].Err != nil || !errors.Is(res[1].Err, fault.Invalid) {
		t.Fatalf("%v, %v", res, err)
	}
	if got := content(t, r); got != model(2) {
		t.Fatalf("the store holds %s", got)
	}
}

// A process that is stopped while it holds the lock must not make others hang for ever.
func TestALockThatIsNotGivenBackIsUnavailableAndNamesItsHolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	var lines testlog.Buffer // written by the core only, read after Close
	cfg := Config{Dir: dir, Options: driver.Options{Logger: lines.Logger()}}
	s, err := open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.core.lock.patience = 50 * time.Millisecond
	r := registry.New(s)
	release := hold(t, s, 4711)
	for range 2 {
		_, err = r.Txn(t.Context(), step(1))
		if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "stopped") {
			t.Fatalf("error %v, expected unavailable, because of a stopped process", err)
		}
	}
	if got := content(t, r); got != "" {
		t.Fatalf("reads %q", got) // and does not wait for the lock
	}
	release()
	s.core.lock.patience = lockPatience
	if _, err := r.Txn(t.Context(), step(1)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if log := lines.String(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "pid=4711") || !strings.Contains(log, "let go;") {
		t.Errorf("one incident was logged as %q", log)
	}
}

func TestACallThatIsGivenUpIsUnknownOrWasNotDone(t *testing.T) {
	t.Parallel()
	block := make(chan struct{})
	slow := false
	mem := vfs.NewMem(1)
	r := mustOpenFS(t, vfs.Inject(mem, func(op *vfs.Op) error {
		if slow && op.Kind == vfs.OpSync {
			<-block
		}
		return nil
	}))
	slow = true
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := r.Txn(ctx, step(1))
	if !errors.Is(err, fault.Unknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a write that may be done: %v, expected unknown", err)
	}
	close(block)
	if got := content(t, r); got != model(1) {
		t.Fatalf("the store holds %q", got)
	}
}

func TestASessionDeclaredDeadIsFencedBeforeItsEndIsWritten(t *testing.T) {
	t.Parallel()
	s, err := open(new(hook.Gate).With(t.Context()), Config{FS: vfs.NewMem(1), space: tiny})
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New(s)
	defer r.Close()
	s.gate.Shut() // nobody writes its end
	x, err := r.OpenSession(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	info := x.(*session).info
	declareDead(s.ctl.slot(info.slot), info.tag)
	_, err = r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "k", Session: x.ID()}}})
	if !errors.Is(err, fault.Fenced) {
		t.Fatalf("error %v, expected fenced", err)
	}
}

func TestCheckpointsWakeNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := openDir(t, dir), openDir(t, dir)
	own, err := a.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if _, err := a.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "c", Value: []byte{byte(i)}}}, Quiet: true}); err != nil {
			t.Fatal(err)
		}
	}
	if got := value(t, b, "c"); got != string([]byte{49}) {
		t.Fatalf("another process reads %q", got)
	}
	for name, ch := range map[string]<-chan struct{}{"own": own, "other": other} {
		select {
		case <-ch:
			t.Errorf("the %s watch was woken by quiet transactions", name)
		default:
		}
	}
}

func TestSessionsOfOneProcessEndOneByOneAndTheirSlotsAreUsedAgain(t *testing.T) {
	t.Parallel()
	s, err := open(t.Context(), Config{FS: vfs.NewMem(1)})
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New(s)
	defer r.Close()
	var last registry.Session
	for range 3 * 20 { // a slot is free again as soon as its session is closed
		x, err := r.OpenSession(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if slot := x.(*session).info.slot; slot > 1 {
			t.Fatalf("slot %d with two sessions open", slot)
		}
		if last != nil {
			if err := last.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if renew(last.(*session).slot, last.(*session).info.tag) {
				t.Fatal("a closed session can be renewed")
			}
		}
		last = x
	}
}

func TestAnObserverThatDidNotRunItselfJudgesNobody(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem(1)
	a, err := open(new(hook.Gate).With(t.Context()), Config{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := open(t.Context(), Config{FS: fs.Process()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ttl := 10 * time.Second
	x, err := a.OpenSession(t.Context(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	a.gate.Shut()
	b.keeper.stop(false) // this test plays its rounds
	k := newSessionKeeper(b)
	defer k.cancel()
	info := x.(*session).info
	word := a.ctl.slot(info.slot).Load()
	table := []sessionInfo{info}
	old := time.Now().Add(-2 * ttl)
	k.last, k.seen = old, map[string]sighting{info.id: {word: word, since: old}}
	k.others(table, ttl)
	if w := a.ctl.slot(info.slot).Load(); w&dead != 0 {
		t.Fatal("an observer that was stopped as well ended the session")
	}
	k.last, k.seen = time.Now(), map[string]sighting{info.id: {word: word, since: old}}
	k.others(table, ttl)
	if w := a.ctl.slot(info.slot).Load(); w&dead == 0 {
		t.Fatal("a heartbeat that stood still for the TTL was not noticed")
	}
	b.keeper = newSessionKeeper(b) // for Close
}

// Somebody wrote into the page what no process of ours does. A reader must not wait for ever for
// what is said never to have been written.
func TestAPageThatGoesBackwardsIsAnError(t *testing.T) {
	t.Parallel()
	s, err := open(t.Context(), Config{FS: vfs.NewMem(1)})
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New(s)
	defer r.Close()
	if _, err := r.Txn(t.Context(), step(1)); err != nil {
		t.Fatal(err)
	}
	s.ctl.written.Store(0)
	s.ctl.synced.Store(0)
	if _, err := r.List(t.Context(), ""); !errors.Is(err, fault.Corrupt) {
		t.Errorf("error %v, expected it to be called corrupt", err)
	}
}
