package fileregistry

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/registry/internal/local"
	"github.com/ringfence/ringfence/registry/internal/presence"
)

const successors = 2 // how many processes this one watches through the kernel

func (k *sessionKeeper) path(handle string) string { return k.s.kernelPath(livePrefix + handle) }

// ring are the handles that this process watches: its successors among those with sessions.
func (k *sessionKeeper) ring(table []sessionInfo) []string {
	if !k.s.real {
		return nil
	}
	var seen presence.Reading[string, string]
	for _, info := range table {
		declared := k.s.ctl.slot(info.slot).Load()&dead != 0 // its end is being written
		seen = append(seen, presence.Sighting[string, string]{Session: info.id, Process: info.handle, Over: declared})
	}
	return seen.Successors(k.s.handle, successors)
}

// await waits for the death of a process, and tells the keeper.
func (k *sessionKeeper) await(ctx context.Context, handle string) {
	switch err := local.Await(ctx, k.path(handle)); {
	case err == nil:
		select {
		case k.died <- handle:
		case <-ctx.Done():
		}
	case ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist):
		k.s.log.Warn("a process can't be watched; its heartbeat has to do", "error", err)
	}
}

// announceDeath announces the end of the sessions of a dead process.
func (k *sessionKeeper) announceDeath(handle string) {
	k.gone[handle] = struct{}{}
	for _, info := range *k.s.core.sessions.Load() {
		if info.handle == handle {
			declareDead(k.s.ctl.slot(info.slot), info.tag)
			k.seen[info.id] = sighting{over: true} // by this process: the next round writes it
		}
	}
}

// tidy removes the FIFOs of dead processes that have no session any more. The others are needed:
// a process that sees a session of theirs later learns from the FIFO that it is over.
func (k *sessionKeeper) tidy(table []sessionInfo) {
	for handle := range k.gone {
		if !slices.ContainsFunc(table, func(i sessionInfo) bool { return i.handle == handle }) {
			delete(k.gone, handle)
			_ = k.s.dir.Remove(livePrefix + handle)
		}
	}
}

// sweepPatience is what a stopped writer may cost the opening of a registry.
const sweepPatience = 50 * time.Millisecond

// sweep ends the sessions of processes that died unwatched, and removes what FIFOs
// they left. What can't be written soon is announced all the same, and the rounds write it.
func (k *sessionKeeper) sweep(ctx context.Context) {
	if !k.s.real {
		return
	}
	gone := make(map[string]bool)
	var ids []string
	for _, info := range *k.s.core.sessions.Load() {
		over, known := gone[info.handle]
		if !known {
			over = local.Gone(k.path(info.handle))
			gone[info.handle] = over
		}
		if over {
			declareDead(k.s.ctl.slot(info.slot), info.tag)
			ids = append(ids, info.id)
		}
	}
	if len(ids) > 0 {
		ctx, cancel := context.WithTimeout(ctx, sweepPatience)
		defer cancel()
		if _, _, err := k.s.call(ctx, endOf(ids)); err != nil {
			return
		}
	}
	list, err := k.s.dir.ReadDir(".")
	if err != nil {
		return
	}
	for _, e := range list {
		handle, ok := strings.CutPrefix(e.Name(), livePrefix)
		if ok && local.Gone(k.path(handle)) {
			_ = k.s.dir.Remove(e.Name())
		}
	}
}
