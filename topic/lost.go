package topic

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// A registry may be lost while the log is not. A topic that is then created anew must not hide the
// records of the one before, which nobody has deleted.

// lostLooks and lostPause: a log of several servers shows for a moment what was just deleted.
const (
	lostLooks = 5
	lostPause = 500 * time.Millisecond
)

// checkLost refuses to begin a life of a name of which the log holds records that nothing defines.
func (c *Catalog) checkLost(ctx context.Context, name string) error {
	for look := 1; ; look++ {
		lost, err := c.lost(ctx, name)
		if err != nil || len(lost) == 0 {
			return err
		}
		if _, _, err := c.load(ctx, name); err == nil {
			return nil // somebody else has defined it meanwhile
		}
		if look == lostLooks {
			return fmt.Errorf("topic %q: the log holds records of it, in %s, and the registry does not define it (was it lost, or is another one used?): create it with their life to go on with them (--life %s), or delete them with the log's own tools: %w",
				name, strings.Join(lost, ", "), lifeOf(lost[0]), fault.Exists)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lostPause):
		}
	}
}

// lifeOf is the life in the name of a storage topic.
func lifeOf(storage string) string { return storage[strings.LastIndexByte(storage, '.')+1:] }

// lost are the storage topics with records that the log has of a name, of whatever life.
func (c *Catalog) lost(ctx context.Context, name string) ([]string, error) {
	all, err := c.log.Topics(ctx)
	if err != nil {
		return nil, err
	}
	prefix := strings.TrimSuffix(StorageName(c.namespace, name, "", 0), "0.")
	var lost []string
	for _, st := range all {
		index, life, ok := strings.Cut(strings.TrimPrefix(st.Name, prefix), ".")
		if !ok || !strings.HasPrefix(st.Name, prefix) || strings.Trim(index, "0123456789") != "" || !lifePattern.MatchString(life) {
			continue
		}
		if c.holds(ctx, st.Name, st.Partitions) {
			lost = append(lost, st.Name)
		}
	}
	return lost, nil
}

// holds says whether a storage topic has records. One that can't be opened is being deleted, or is
// damaged, and then in nobody's way.
func (c *Catalog) holds(ctx context.Context, storage string, partitions int) bool {
	st, err := c.log.Topic(ctx, storage)
	if err != nil {
		return false
	}
	defer func() { _ = st.Close() }() // it was only looked at
	for p := range partitions {
		if b, err := st.Bounds(ctx, p); err == nil && b.Next > b.First {
			return true
		}
	}
	return false
}
