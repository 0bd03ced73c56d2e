package topic

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// ReplacedError says that a storage topic is not the one that was made for its topic: it was deleted past
// Ringfence, and another one made of its name. Positions of groups mean other records there, so it is
// neither read nor written. It is fault.Corrupt.
type ReplacedError struct {
	Topic, Storage string
	Want, Found    string // what the log calls it, or its shape
}

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("storage topic %q of topic %q was deleted and made again by another program: expected %.64q, found %.64q; "+
		"the positions of groups are of the one that is gone, so nothing is read or written: keep what is in the new one by the log's own tools, "+
		"then delete the topic with its groups (ringfence topic delete %s --force), and create it again", e.Storage, e.Topic, e.Want, e.Found, e.Topic)
}

// Is makes it fault.Corrupt.
func (e *ReplacedError) Is(target error) bool { return target == fault.Corrupt }

// identify notes which storage topic was made for a definition. A log without identities leaves none.
func (c *Catalog) identify(ctx context.Context, doc *Document, i int) error {
	id, err := c.log.TopicID(ctx, doc.Storage[i].Name)
	if err != nil && !errors.Is(err, fault.NotFound) { // gone already: its deleter has the definition too
		return fmt.Errorf("storage topic %q of topic %q: %w", doc.Storage[i].Name, doc.Name, err)
	}
	doc.Storage[i].ID = id
	return nil
}

// checkSame is a *ReplacedError when st is not the storage topic that the definition means. Without an
// identity on either side only the partitions are compared: no log takes any away.
func (d *Document) checkSame(i int, st *commitlog.Topic) error {
	s, found, partitions := d.Storage[i], st.ID(), st.Config().Partitions
	switch {
	case s.ID != "" && found != "" && s.ID != found:
		return &ReplacedError{Topic: d.Name, Storage: s.Name, Want: "id " + s.ID, Found: "id " + found}
	case partitions < s.Partitions:
		return &ReplacedError{Topic: d.Name, Storage: s.Name, Want: fmt.Sprintf("%d partitions", s.Partitions), Found: fmt.Sprintf("%d partitions", partitions)}
	}
	return nil
}

// CheckLog is the error of a topic that the log does not have any more, though the registry defines it: deleted past
// Ringfence (fault.NotFound), perhaps with another one made in its place (*ReplacedError). nil: it is there, or a
// store does not answer, or it was deleted or moved in order, which other errors say.
func (t *Topic) CheckLog(ctx context.Context) error {
	life := t.Document().Life
	_, _, err := t.catalog.caughtUp(ctx, t.name, life, false)
	var replaced *ReplacedError
	if !errors.Is(err, fault.NotFound) && !errors.As(err, &replaced) {
		return nil
	}
	if _, _, gone := t.catalog.here(ctx, t.name, life); gone != nil {
		return nil //nolint:nilerr // told elsewhere
	}
	return err
}
