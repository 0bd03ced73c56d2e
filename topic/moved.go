package topic

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
)

// Moved says that a topic is at another log, or on its way there. Nothing may open it again here:
// what was stored here from then on would never be consumed.
type Moved struct {
	To   string `json:"to"`   // the name of that log, without a password
	Done bool   `json:"done"` // false: the move was begun, and can still be abandoned
}

// CheckHere is ErrConflict, with the place, when the topic was moved to another log.
func (d *Document) CheckHere() error {
	if d.Moved == nil {
		return nil
	}
	to, what := cmp.Or(d.Moved.To, "another log"), "was"
	if !d.Moved.Done {
		what = "is being"
	}
	return fmt.Errorf("topic %q %s moved to %s; go on there, with its log and its registry: %w", d.Name, what, to, fault.Conflict)
}

// Mark notes that a topic of that ID moves, or has moved, to another log; nil takes that back.
// ErrConflict when it moves to another one already, when a finished move would be taken back, and for
// an internal topic.
func (c *Catalog) Mark(ctx context.Context, name, life string, moved *Moved) error {
	for {
		doc, version, err := c.ready(ctx, name, life)
		if err != nil {
			return err
		}
		if err := doc.CheckPublic(); err != nil {
			return err
		}
		switch have := doc.Moved; {
		case have == nil && moved == nil, have != nil && moved != nil && (*have == *moved || have.Done && have.To == moved.To):
			return nil
		case have != nil && have.Done, have != nil && moved != nil && have.To != moved.To:
			return doc.CheckHere()
		}
		doc.Moved = moved
		if err := c.store(ctx, doc, version); !errors.Is(err, fault.Conflict) {
			return err
		}
	}
}
