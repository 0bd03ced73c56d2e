package topic

import (
	"encoding/json"
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
)

// Card is what a storage topic says of its topic. It is written when the storage topic is made and never changes,
// so it also tells what a registry has forgotten.
type Card struct {
	Format     int    `json:"format"`
	Router     Router `json:"router"`
	Hash       Hash   `json:"hash"`
	Partitions []int  `json:"partitions"` // of all storage topics of the life up to this one, retired ones among them
	Internal   string `json:"internal,omitempty"`
	Note       string `json:"note,omitempty"` // of that owner
	// From are the offsets of the source at which the partitions of a mirror's copy begin; nil: it is no copy.
	From []int64 `json:"from,omitempty"`
	// Moved: the topic went to another log. This storage topic holds no records and ends it here.
	Moved *Moved `json:"moved,omitempty"`
}

// Card is that of storage topic i.
func (d *Document) Card(i int) Card {
	c := Card{Router: d.Router, Hash: d.Hash, Internal: d.Internal, Note: d.Note}
	for _, s := range d.Storage[:i+1] {
		c.Partitions = append(c.Partitions, s.Partitions)
	}
	return c
}

// Encode is the card as commitlog.TopicConfig has it.
func (c Card) Encode() string {
	c.Format = format
	b, _ := json.Marshal(c) //nolint:errchkjson // texts and numbers only
	return string(b)
}

// DecodeCard reads the card of a storage topic; nil: it has none, as one of an earlier version.
func DecodeCard(storage, card string) (*Card, error) {
	if card == "" {
		return nil, nil //nolint:nilnil // none is a valid answer
	}
	c := new(Card)
	err := json.Unmarshal([]byte(card), c)
	if err == nil && c.Format > format {
		return nil, fmt.Errorf("the card of storage topic %q is of format %d; this version reads format %d: %w", storage, c.Format, format, fault.Newer)
	}
	if err == nil && len(c.Partitions) == 0 {
		err = fmt.Errorf("no partitions")
	}
	if err != nil {
		return nil, fmt.Errorf("the card of storage topic %q is %.100q: %w: %w", storage, card, fault.Corrupt, err)
	}
	return c, nil
}
