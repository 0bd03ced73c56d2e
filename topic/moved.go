package topic

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/commitlog"
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

// Ended says where a topic went, as its own log knows it, whatever the registry remembers: the storage topic behind
// the last one has no records, and a card that names that log. nil: it is here.
func (c *Catalog) Ended(ctx context.Context, doc *Document) (*Moved, error) {
	for i := len(doc.Storage); ; i++ {
		ended, err := c.endAt(ctx, doc, i)
		if errors.Is(err, fault.NotFound) {
			return nil, nil //nolint:nilnil // it is here
		}
		if err != nil || ended != nil {
			return ended, err
		}
	}
}

// endAt is what storage topic i says of the end of its topic. ErrNotFound when there is none.
func (c *Catalog) endAt(ctx context.Context, doc *Document, i int) (*Moved, error) {
	st, err := c.log.Topic(ctx, StorageName(c.namespace, doc.Name, doc.Life, i))
	if err != nil {
		return nil, err
	}
	config := st.Config()
	card, err := DecodeCard(config.Name, config.Card)
	if err = errors.Join(err, st.Close()); err != nil || card == nil {
		return nil, err
	}
	return card.Moved, nil
}

// EndHere ends a topic of that ID, which has so many storage topics, in this log for good: it is at another one now.
// The log decides between that and the storage topic that would come next, as they have one name: ErrConflict when
// the topic has grown.
func (c *Catalog) EndHere(ctx context.Context, name, life string, storage int, to string) error {
	doc, _, err := c.ready(ctx, name, life)
	if err != nil {
		return err
	}
	grown := fmt.Errorf("topic %q has got another storage topic while it was cut over to %s, and stays here (cut over again): %w", name, to, fault.Conflict)
	if len(doc.Storage) != storage {
		return grown
	}
	card := doc.Card(storage - 1)
	card.Moved = &Moved{To: to, Done: true}
	err = c.log.CreateTopic(ctx, commitlog.TopicConfig{Name: StorageName(c.namespace, name, life, storage), Partitions: 1, Card: card.Encode()})
	if err != nil && !errors.Is(err, fault.Exists) {
		return err
	}
	switch ended, err := c.endAt(ctx, doc, storage); {
	case err != nil:
		return err
	case ended == nil || ended.To != to:
		return grown
	}
	return c.Mark(ctx, name, life, card.Moved)
}
