package memregistry

import (
	"time"

	"github.com/ringfence/ringfence/registry"
)

// Handle is one process's registry, and the means to hurt it.
type Handle struct {
	*registry.Registry
	c *client
}

// Kill is kill -9 of the process: its sessions end at once, its calls return ErrClosed.
func (h *Handle) Kill() { _ = h.c.Close() }

// Freeze is SIGSTOP as far as the registry can play it: the sessions are no longer renewed, and
// nothing in the process learns that they ended. Calls go on to work, for a test to play the
// process that was stopped just before a write.
func (h *Handle) Freeze() { h.c.setFrozen(true) }

// Thaw is SIGCONT.
func (h *Handle) Thaw() { h.c.setFrozen(false) }

// SetOutage cuts this process off from the store, or heals it: calls return ErrUnavailable,
// sessions are not renewed, watches are silent until it is over.
func (h *Handle) SetOutage(on bool) { h.c.setOutage(on) }

// SetLatency makes every call take at least d.
func (h *Handle) SetLatency(d time.Duration) { h.c.update(func(f *faults) { f.latency = d }) }

// LoseReplies makes the next n Apply calls take effect and still answer ErrUnknown.
func (h *Handle) LoseReplies(n int) { h.c.update(func(f *faults) { f.loseReplies = n }) }

// LoseRequests makes the next n Apply calls take no effect and answer ErrUnknown.
func (h *Handle) LoseRequests(n int) { h.c.update(func(f *faults) { f.loseRequests = n }) }

// OnApply is called with the keys that each Apply of this handle would write, before it is
// applied; an error is returned instead of applying. nil: no hook.
func (h *Handle) OnApply(hook func(keys []string) error) {
	h.c.update(func(f *faults) { f.onApply = hook })
}
