package crash

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/vfs"
)

// Power is lost before each operation that changes something, and each time several different
// subsets of what was not synced survive.
func TestPowerLossAtEveryOperation(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	for seed := range uint64(soak(3, 400)) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			images := film(ctx, t, seed, soak(2, 4))
			t.Logf("%d images", len(images))
			each(t, images, func(i *image) error {
				if err := i.verify(ctx); err != nil {
					return fmt.Errorf("crash %s: %w", i.where, err)
				}
				return nil
			})
		})
	}
}

// Several processes open a log at the same time after a power loss: one recovers it, all agree.
func TestProcessesThatRaceToRecover(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	images := film(ctx, t, 2000, 1)
	var some []*image
	for i := 0; i < len(images); i += soak(6, 1) {
		if images[i].before.created {
			some = append(some, images[i])
		}
	}
	each(t, some, func(i *image) error {
		var wg sync.WaitGroup
		errs := make([]error, 3)
		for n := range errs {
			wg.Go(func() {
				l, err := openOn(ctx, i.disk.Process())
				if err == nil {
					_, err = l.Topic(ctx, topicName)
					err = errors.Join(err, l.Close())
				}
				errs[n] = err
			})
		}
		wg.Wait()
		if err := errors.Join(append(errs, i.verify(ctx))...); err != nil {
			return fmt.Errorf("crash %s: %w", i.where, err)
		}
		return nil
	})
}

// The workload must go through what the matrix is about, or its crashes prove little.
func TestTheWorkloadReachesEveryPart(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	var mu sync.Mutex
	seen := map[string]bool{}
	w := newWorkload(1, vfs.Inject(mem, func(op *vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		seen[string(op.Kind)+" "+path.Base(op.Name)] = true
		return nil
	}))
	must(t, w.run(testContext(t)))
	for _, want := range []string{"sync 0000000000000003.seg", "rename spare", "sync trim.tmp", "rename trim", "syncdir " + topicName, "syncdir topics"} {
		found := false
		for op := range seen {
			found = found || strings.HasPrefix(op, want)
		}
		if !found {
			t.Errorf("the workload never does %q", want)
		}
	}
}

// A topic is deleted, and power is lost before each operation of that: it is there, or it is not,
// and one of the same name can be made.
func TestPowerLossWhileATopicIsDeleted(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	type photo struct {
		disk  *vfs.Mem
		acked bool
		where string
	}
	var photos []photo
	deleting, acked := false, false
	mem := vfs.NewMem(8)
	w := newWorkload(8, vfs.Inject(mem, func(op *vfs.Op) error {
		if deleting {
			for range 5 {
				photos = append(photos, photo{mem.Crash(), acked, fmt.Sprintf("before %s %s", op.Kind, op.Name)})
			}
		}
		return nil
	}))
	w.steps = 6
	must(t, w.run(ctx))
	l, err := openOn(ctx, w.fss[0])
	must(t, err)
	deleting = true
	must(t, l.DeleteTopic(ctx, topicName))
	deleting = false
	photos = append(photos, photo{mem.Crash(), true, "after it"})
	must(t, l.Close())
	h := w.h.snapshot()
	each(t, photos, func(p photo) error {
		err := h.snapshot().verify(ctx, func() (*commitlog.Log, error) { return openOn(ctx, p.disk) }, h.snapshot(), false)
		switch {
		case err == nil && !p.acked: // all of it is there still
			return nil
		case !errors.Is(err, commitlog.ErrNotFound):
			return fmt.Errorf("%s: the topic is half there: %w", p.where, err)
		}
		l, err := openOn(ctx, p.disk)
		if err != nil {
			return err
		}
		defer l.Close()
		if err := l.CreateTopic(ctx, commitlog.TopicConfig{Name: topicName, Partitions: 1}); err != nil {
			return fmt.Errorf("%s: make it again: %w", p.where, err)
		}
		return nil
	})
}

// film runs the workload and takes several images before each operation.
func film(ctx context.Context, t *testing.T, seed uint64, copies int) []*image {
	t.Helper()
	mem := vfs.NewMem(seed)
	var cam camera
	w := newWorkload(seed)
	hook := func(op *vfs.Op) error {
		if op.Kind.Changes() {
			for range copies {
				cam.shoot(mem, w.h, fmt.Sprintf("before operation %d (%s %s)", op.Count, op.Kind, op.Name))
			}
		}
		return nil
	}
	w.fss = []vfs.FS{vfs.Inject(mem, hook), vfs.Inject(mem.Process(), hook)}
	must(t, w.run(ctx))
	cam.shoot(mem, w.h, "at the end")
	return cam.images
}

// The machine crashes again while it recovers from a crash.
func TestPowerLossDuringRecovery(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	for seed := range uint64(soak(2, 100)) {
		t.Run(fmt.Sprintf("seed=%d", 1000+seed), func(t *testing.T) {
			t.Parallel()
			images := film(ctx, t, 1000+seed, 1)
			var some []*image
			for i := int(seed); i < len(images); i += soak(4, 1) {
				some = append(some, images[i])
			}
			each(t, some, func(i *image) error { return crashRecovery(ctx, i) })
		})
	}
}

func crashRecovery(ctx context.Context, first *image) error {
	var cam camera
	fsys := vfs.Inject(first.disk, func(op *vfs.Op) error {
		if op.Kind.Changes() {
			cam.shoot(first.disk, first.after, fmt.Sprintf("%s, then before operation %d (%s %s) of the recovery", first.where, op.Count, op.Kind, op.Name))
		}
		return nil
	})
	l, err := openOn(ctx, fsys)
	if err != nil {
		return fmt.Errorf("recovery from the crash %s: %w", first.where, err)
	}
	if _, err := l.Topic(ctx, topicName); err != nil && first.before.created {
		return fmt.Errorf("recovery from the crash %s: %w", first.where, err)
	}
	if err := l.Close(); err != nil {
		return err
	}
	for _, i := range cam.images {
		i.before = first.before
		if err := i.verify(ctx); err != nil {
			return fmt.Errorf("crash %s: %w", i.where, err)
		}
	}
	return nil
}

// One machine crashes again and again; what was acked in between stays.
func TestManyPowerLossesOneAfterTheOther(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	for seed := range uint64(soak(3, 300)) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			mem, h := vfs.NewMem(seed), newHistory()
			for round := range 12 {
				open := func() (*commitlog.Log, error) { return openOn(ctx, mem) }
				if err := h.verify(ctx, open, h.snapshot(), false); err != nil {
					t.Fatalf("after %d crashes: %v", round, err)
				}
				h.created = true
				mem = mem.Crash()
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
