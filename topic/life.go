package topic

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// A name may have several topics one after another. Each has its own ID (its life), which is in the
// names of its storage topics: a process that was stopped in the middle of a step, and goes on when
// another topic has the name, finds nothing of that under the names that it knows.

// ErrAnotherLife says that the topic that was opened, or was being changed, is gone, and that another
// one has its name. It is fault.NotFound.
var ErrAnotherLife = fmt.Errorf("it was deleted, and another topic has its name now: %w", fault.NotFound)

// lifeBytes is the length of an ID: 40 random bits.
const lifeBytes = 8

const maxLifeBytes = 16

var lifePattern = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

// NewLife makes the ID of a topic.
func NewLife() string { return strings.ToLower(rand.Text()[:lifeBytes]) }

// NextLife is the ID of the topic that a move to another log makes of one: k3m9q2xtx1 of k3m9q2xt, and k3m9q2xtx2
// of that. It follows from the ID at the source, so no registry has to remember it.
func NextLife(life string) string {
	base, n := life, 0
	if at := strings.LastIndexByte(life, 'x'); at >= lifeBytes {
		if moved, err := strconv.Atoi(life[at+1:]); err == nil {
			base, n = life[:at], moved
		}
	}
	next := "x" + strconv.Itoa(n+1)
	return base[:min(len(base), maxLifeBytes-len(next))] + next
}

// checkLife checks that life can be a topic ID.
func checkLife(life string) error {
	if !lifePattern.MatchString(life) {
		return fmt.Errorf("life %.20q of a topic; expected 1 to 16 lower case letters and digits: %w", life, fault.Invalid)
	}
	return nil
}

// StorageName names storage topic i of a topic ID in a log, which knows no namespaces:
// payments..0.k3m9q2xt, or eu..payments..0.k3m9q2xt. Neither a namespace nor the name of a topic
// contains "..", so no two topics share one.
func StorageName(namespace, topic, life string, i int) string {
	if namespace != "" {
		namespace += ".."
	}
	return fmt.Sprintf("%s%s..%d.%s", namespace, topic, i, life)
}

// IsStorage reports whether name is that of a storage topic called short, which is the same without
// the topic ID: payments..0 for payments..0.k3m9q2xt.
func IsStorage(name, short string) bool {
	life, ok := strings.CutPrefix(strings.TrimSuffix(name, movedSuffix), short+".")
	return name == short || ok && lifePattern.MatchString(life)
}

// inLife is nil when d has the ID that was begun with; "" begins with any.
func (d *Document) inLife(life string) error {
	if life != "" && d.Life != life {
		return fmt.Errorf("topic %q: %w", d.Name, ErrAnotherLife)
	}
	return nil
}

// clearTimeout bounds how long an ending process takes to clear what it has made.
const clearTimeout = 5 * time.Second

// clear removes a storage topic whose definition is gone or being deleted: the deletion may have
// looked before the storage topic was made. Its name is of that topic ID alone.
func (c *Catalog) clear(ctx context.Context, made *Document, i int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTimeout) // no other process would
	defer cancel()
	doc, _, err := c.load(ctx, made.Name)
	switch {
	case err == nil && doc.Life == made.Life && doc.State != Deleting && (i >= len(doc.Storage) || !doc.Storage[i].Retired):
		return nil // another process goes on with it
	case err != nil && !errors.Is(err, fault.NotFound):
		return err
	}
	if err := c.log.DeleteTopic(ctx, made.Storage[i].Name); err != nil && !errors.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// storeMade stores a definition for which storage topic i was just made.
func (c *Catalog) storeMade(ctx context.Context, doc *Document, version registry.Version, i int) error {
	err := c.store(ctx, doc, version)
	if errors.Is(err, fault.Conflict) {
		if failed := c.clear(ctx, doc, i); failed != nil {
			return failed
		}
	}
	return c.unlessEnded(ctx, doc, i, err)
}

// unlessEnded passes on err. If ctx has ended it clears storage topic i: a deletion of the topic's owner ends
// the members that make it.
func (c *Catalog) unlessEnded(ctx context.Context, doc *Document, i int, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return errors.Join(err, c.clear(ctx, doc, i))
}
