package sqlregistry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/registry/internal/local"
	"github.com/ringfence/ringfence/registry/internal/sqlstore"
)

const lookEvery = time.Second // at the revision, as a writer may die before it rings

// kernelSignals are FIFOs and inotify, beside the database's file.
type kernelSignals struct {
	path, handle, boot string
	bell               *local.Bell
	rung               chan struct{}
	wg                 sync.WaitGroup
}

func openKernel(path, handle, boot string) (*kernelSignals, error) {
	k := &kernelSignals{path: path, handle: handle, boot: boot, rung: make(chan struct{}, 1)}
	var err error
	if k.bell, err = local.NewBell(path + "-wake"); err != nil {
		return nil, fmt.Errorf("sqlite registry: %w", err)
	}
	k.wg.Go(func() { // joined by Close
		for k.bell.Wait() == nil {
			select {
			case k.rung <- struct{}{}:
			default:
			}
		}
	})
	return k, nil
}

func (k *kernelSignals) live(handle string) string { return k.path + "-live-" + handle }

// clean removes the FIFOs of dead processes. Until their sessions are ended, these prove the death.
func (k *kernelSignals) clean() {
	list, err := os.ReadDir(filepath.Dir(k.path))
	if err != nil {
		return
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), filepath.Base(k.path)+"-live-") {
			if p := filepath.Join(filepath.Dir(k.path), e.Name()); local.Gone(p) {
				_ = os.Remove(p)
			}
		}
	}
}

// Announce implements sqlstore.Signals.
func (k *kernelSignals) Announce(context.Context) (sqlstore.Presence, error) {
	f, err := local.Announce(k.path+"-temp-"+k.handle, k.live(k.handle))
	if err != nil {
		return nil, err
	}
	return &fifo{f, k.live(k.handle)}, nil
}

type fifo struct {
	io.Closer
	path string
}

func (f *fifo) Keep(context.Context, func()) error { return nil }

func (f *fifo) Close() error { return errors.Join(os.Remove(f.path), f.Closer.Close()) }

// Await implements sqlstore.Signals.
func (k *kernelSignals) Await(ctx context.Context, handle string) error {
	if !k.booted(handle) {
		return nil
	}
	switch err := local.Await(ctx, k.live(handle)); {
	case errors.Is(err, fs.ErrNotExist): // as in Gone
	case err != nil:
		return err
	default:
		_ = os.Remove(k.live(handle))
	}
	return nil
}

// Gone implements sqlstore.Signals. A process from before this boot of the machine is dead, and so is one
// without a FIFO: a process makes it before its first session, and removes it after the last.
func (k *kernelSignals) Gone(_ context.Context, handle string) (bool, error) {
	if !k.booted(handle) {
		return true, nil
	}
	if _, err := os.Lstat(k.live(handle)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		return false, err
	}
	return local.Gone(k.live(handle)), nil
}

// booted reports whether a process was started since this boot of the machine.
func (k *kernelSignals) booted(handle string) bool { return strings.HasPrefix(handle, k.boot+"-") }

// Ring implements sqlstore.Signals.
func (k *kernelSignals) Ring(context.Context) error {
	k.bell.Ring()
	return nil
}

// Listen implements sqlstore.Signals.
func (k *kernelSignals) Listen(ctx context.Context, _ int64) error {
	t := time.NewTimer(lookEvery)
	defer t.Stop()
	select {
	case <-k.rung:
	case <-t.C:
	case <-ctx.Done():
	}
	return nil
}

// Close implements sqlstore.Signals.
func (k *kernelSignals) Close() error {
	err := k.bell.Close()
	k.wg.Wait()
	return err
}
