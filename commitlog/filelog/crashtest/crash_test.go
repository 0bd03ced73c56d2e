package crashtest

import (
	"context"
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/vfs"
)

// Power is lost before each operation that changes something, and each time several different
// subsets of what was not synced survive.
func TestPowerLossAtEveryOperation(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	for seed := range uint64(soak(4, 400)) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			images := film(ctx, t, seed, 3)
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
	if err := w.run(ctx); err != nil {
		t.Fatal(err)
	}
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
