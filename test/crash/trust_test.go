package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/vfs"
)

// The control page is believed only while somebody has lived. These are the lives that end.

// The only process that has the topic open is killed at each of its operations, perhaps in the
// middle of a write. What it was told is found in the bytes, at either level of durability.
func TestALoneProcessKilledAtEveryOperation(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	for i, level := range []driver.Durability{driver.Sync, driver.OS} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			each(t, positions(uint64(10+i), 60), func(at int64) error {
				if err := killAlone(ctx, level, at); err != nil {
					return fmt.Errorf("killed at operation %d: %w", at, err)
				}
				return nil
			})
		})
	}
}

func killAlone(ctx context.Context, level driver.Durability, at int64) error {
	mem := vfs.NewMem(uint64(at))
	h := newHalt(at, func(op *vfs.Op) {
		if op.Kind == vfs.OpWrite && at%3 > 0 {
			writeBy(mem.Process(), op, op.Length/int(at%3))
		}
		mem.Kill()
	})
	w := newWorkload(uint64(at), vfs.Inject(mem, h.hook))
	w.level, h.told = level, w.h
	done := make(chan error, 1)
	go func() { done <- w.run(ctx) }()
	select {
	case <-h.reached:
	case err := <-done: // it had fewer operations
		return err
	}
	before := w.h.snapshot()
	next := mem.Process()
	err := before.snapshot().verify(ctx, func() (*commitlog.Log, error) { return openAt(ctx, next, level) }, before, true)
	close(h.release)
	<-done // the error of the killed process does not matter
	return err
}

// told is a log of one record after another, and what its writer was told.
func told(ctx context.Context, fsys vfs.FS, acked int) (*commitlog.Log, *commitlog.Topic, error) {
	l, err := openOn(ctx, fsys)
	if err != nil {
		return nil, nil, err
	}
	if err := l.CreateTopic(ctx, lifeOf(0)); err != nil {
		return l, nil, err
	}
	t, err := l.Topic(ctx, topicName)
	for i := range acked {
		if err == nil {
			err = appendValue(ctx, t, value(0, i))
		}
	}
	return l, t, err
}

// Of two that open a topic after nobody had it, the first is killed while it recovers. The second
// must not take its lock for a sign that the page is true.
func TestARecoveryThatDiesIsBegunAgain(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	const acked = 6
	for seed := range uint64(soak(12, 200)) {
		mem := vfs.NewMem(seed)
		l, _, err := told(ctx, mem, acked)
		must(t, err)
		disk := mem.CrashSameBoot()
		must(t, l.Close())
		if err := recoverTwice(ctx, disk, acked); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

func recoverTwice(ctx context.Context, disk *vfs.Mem, acked int) error {
	first, second := disk.Process(), disk.Process()
	recovering, dead, waits := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var once, onceMore sync.Once
	opened := make(chan error, 1)
	go func() {
		l, err := openOn(ctx, vfs.Inject(first, func(op *vfs.Op) error {
			if op.Kind == vfs.OpSyncDir && op.Name == topicPath {
				once.Do(func() {
					close(recovering)
					<-dead
				})
			}
			return nil
		}))
		if err == nil {
			_, err = l.Topic(ctx, topicName)
			err = errors.Join(err, l.Close())
		}
		opened <- err
	}()
	select {
	case <-recovering:
	case err := <-opened:
		return fmt.Errorf("the first one opened the topic and recovered nothing: %w", err)
	}
	result := make(chan error, 1)
	go func() {
		l, err := openOn(ctx, vfs.Inject(second, func(op *vfs.Op) error {
			if op.Kind == vfs.OpLock && (strings.HasSuffix(op.Name, "open.lock") || strings.HasSuffix(op.Name, "alive.lock")) {
				onceMore.Do(func() { close(waits) })
			}
			return nil
		}))
		if err == nil {
			err = holdsAll(ctx, l, acked)
			err = errors.Join(err, l.Close())
		}
		result <- err
	}()
	<-waits
	first.Kill()
	close(dead)
	if err := <-opened; !errors.Is(err, vfs.ErrKilled) {
		return fmt.Errorf("the dead one opened the topic: %w", err)
	}
	return <-result
}

func holdsAll(ctx context.Context, l *commitlog.Log, acked int) error {
	t, err := l.Topic(ctx, topicName)
	if err != nil {
		return err
	}
	got, err := valuesOf(ctx, t)
	if err != nil {
		return err
	}
	for i := range acked {
		if len(got) <= i || got[i] != value(0, i) {
			return fmt.Errorf("%d records were acknowledged; it holds %q", acked, got)
		}
	}
	return nil
}

// A sync fails, and its process is killed, so that nobody knows. What the next one shows must be
// on the disk, although the kernel holds what it dropped for clean.
func TestAFailedSyncThatNobodyRemembers(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	for seed := range uint64(soak(20, 400)) {
		if err := forgetSync(ctx, seed); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

func forgetSync(ctx context.Context, seed uint64) error {
	mem := vfs.NewMem(seed)
	victim := mem.Process()
	var broken sync.Mutex
	fails := false
	l, t, err := told(ctx, vfs.Inject(victim, func(op *vfs.Op) error {
		broken.Lock()
		defer broken.Unlock()
		if fails && op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".seg") {
			return syscall.EIO
		}
		return nil
	}), 3)
	if err != nil {
		return err
	}
	broken.Lock()
	fails = true
	broken.Unlock()
	if err := appendValue(ctx, t, value(0, 3)); !errors.Is(err, commitlog.ErrUnknown) {
		return fmt.Errorf("an append whose sync failed: %w", err)
	}
	victim.Kill()
	_ = l.Close()
	if l, err = openOn(ctx, mem); err != nil {
		return err
	}
	if t, err = l.Topic(ctx, topicName); err != nil {
		return err
	}
	shown, err := valuesOf(ctx, t)
	if err != nil || len(shown) < 3 {
		return fmt.Errorf("after the kill it holds %q, %w", shown, err)
	}
	after := mem.Crash()
	if err := l.Close(); err != nil {
		return err
	}
	if l, err = openOn(ctx, after); err != nil {
		return err
	}
	defer l.Close()
	if err := holdsAll(ctx, l, len(shown)); err != nil {
		return fmt.Errorf("%d records were shown before a power loss: %w", len(shown), err)
	}
	return nil
}

// A sync fails behind a writer at level os, tells all who have the file open, and the writer is killed. A
// process that opens the file afterwards is told nothing. What it shows must be on the disk.
func TestAFailedSyncThatALateComerIsNotToldOf(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	for seed := range uint64(soak(6, 200)) {
		if err := comeLate(ctx, seed); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

func comeLate(ctx context.Context, seed uint64) (err error) {
	mem := vfs.NewMem(seed)
	// Somebody has the topic open all the time, so that nobody recovers it.
	idle, _, err := told(ctx, mem.Process(), 0)
	defer func() { err = errors.Join(err, idle.Close()) }()
	if err != nil {
		return err
	}
	victim, dead := mem.Process(), make(chan struct{})
	l, err := openAt(ctx, vfs.Inject(victim, func(op *vfs.Op) error {
		if op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".seg") {
			<-dead
		}
		return nil
	}), driver.OS)
	if err != nil {
		return err
	}
	t, err := l.Topic(ctx, topicName)
	for i := range 3 {
		if err == nil {
			err = appendValue(ctx, t, value(0, i))
		}
	}
	if err == nil {
		err = loseSync(mem)
	}
	victim.Kill()
	close(dead)
	_ = l.Close()
	if err != nil {
		return err
	}
	late, err := openOn(ctx, mem.Process())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, late.Close()) }()
	if err := holdsAll(ctx, late, 3); err != nil {
		return err
	}
	after, err := openOn(ctx, mem.Crash())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, after.Close()) }()
	if err := holdsAll(ctx, after, 3); err != nil {
		return fmt.Errorf("3 records were shown at level sync before a power loss: %w", err)
	}
	return nil
}

// loseSync is an fdatasync of the first segment that fails, and tells all who have it open.
func loseSync(mem *vfs.Mem) error {
	f, err := vfs.Inject(mem.Process(), func(op *vfs.Op) error {
		if op.Kind == vfs.OpSync {
			return syscall.EIO
		}
		return nil
	}).OpenFile(segmentPath(1), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := f.SyncData(); !errors.Is(err, syscall.EIO) {
		return fmt.Errorf("the sync that fails: %w", err)
	}
	return f.Close()
}
