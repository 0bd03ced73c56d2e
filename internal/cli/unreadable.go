package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
)

// unreadable notes the partitions whose next record can't be read: the end of a consume must not hide them.
type unreadable struct {
	mu   sync.Mutex
	errs map[int]error // by partition
}

// errUnreadable ends a consume that had to leave partitions out.
var errUnreadable = errors.New("records were left unprocessed")

// trouble is for the event of that name. Only what no patience mends counts.
func (n *unreadable) trouble(partition int, _ string, err error) {
	lasting := errors.Is(err, ringfence.ErrCorrupt) || errors.Is(err, ringfence.ErrOutOfRange) || errors.Is(err, ringfence.ErrNotFound)
	if partition < 0 || !lasting {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.errs == nil {
		n.errs = make(map[int]error)
	}
	n.errs[partition] = err
}

// clear forgets a partition: it has another owner, was sought elsewhere, or a record was processed.
func (n *unreadable) clear(partition int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.errs, partition)
}

// fault names the partitions that are left, and how to go on; nil when there is none.
func (n *unreadable) fault(group string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.errs) == 0 {
		return nil
	}
	lines := []error{errors.New(plural(len(n.errs), "partition") + " can't be read")}
	for _, p := range slices.Sorted(maps.Keys(n.errs)) {
		lines = append(lines, fmt.Errorf("partition %d: %s; %s", p, n.errs[p].Error(), remedy(group, p, n.errs[p])))
	}
	return fmt.Errorf("%w: %w", errUnreadable, errors.Join(lines...))
}

// remedy is the command that lets a group go on behind what can't be read.
func remedy(group string, partition int, err error) string {
	seek := func(to string) string {
		return fmt.Sprintf("to go on there: ringfence group seek %s --partition %d --to %s", group, partition, to)
	}
	var trimmed *commitlog.OutOfRangeError
	var damaged *commitlog.CorruptError
	var stored *protocol.DamagedUnitError
	switch {
	case errors.As(err, &stored):
		return fmt.Sprintf("to go on from where you say: ringfence group seek %s --partition %d --to earliest (or latest, an offset, a time)", group, partition)
	case errors.As(err, &trimmed) && trimmed.Offset < trimmed.First:
		return seek("earliest")
	case errors.As(err, &trimmed):
		return seek("latest")
	case errors.As(err, &damaged) && damaged.Resume >= 0:
		return seek(fmt.Sprint(damaged.Resume))
	}
	return `"ringfence log check" shows what is there`
}
