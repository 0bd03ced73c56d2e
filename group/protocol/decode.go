package protocol

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// MaxAttempts bounds the attempts of a record that a checkpoint and a subscription's journal count.
const MaxAttempts = 1 << 30

// decode reads a stored document. The error names the key: fault.Newer for a format that this version does
// not know, fault.Corrupt for an invalid or contradictory document.
func decode(e registry.Entry, doc any) error {
	err := json.Unmarshal(e.Value, doc)
	meta, isMeta := doc.(*Meta)
	if isMeta && meta.Format > metaFormat {
		return fmt.Errorf("registry key %q: a group of format %d; this version reads format %d: %w", e.Key, meta.Format, metaFormat, fault.Newer)
	}
	if d, ok := doc.(interface{ check() error }); ok && err == nil {
		err = d.check()
	}
	switch {
	case err == nil:
		return nil
	case isMeta:
		return fmt.Errorf("registry key %q: %w: %w; put it back as it was, or remove the group with its checkpoints: ringfence group delete --force", e.Key, err, fault.Corrupt)
	}
	return fmt.Errorf("registry key %q: %w: %w", e.Key, err, fault.Corrupt)
}

func (m *Meta) check() error {
	switch {
	case m.Life == "":
		return fmt.Errorf("a group without an ID")
	case m.Units < 1 || m.Units > MaxUnits || m.First < 0 || m.First > m.Units || m.Initial < 0 || m.Initial > m.Units:
		return fmt.Errorf("a group of %d units, from %d on, %d at first; expected 1 to %d units", m.Units, m.First, m.Initial, MaxUnits)
	case m.Retired < 0:
		return fmt.Errorf("a group of which units of epoch %d are retired; expected 0 or more", m.Retired)
	}
	return nil
}

func (o *Owner) check() error {
	if o.Epoch < 0 || o.After < 0 {
		return fmt.Errorf("an owner in epoch %d, after %d; expected 0 or more", o.Epoch, o.After)
	}
	return nil
}

func (a *Assignment) check() error {
	if a.Version < 0 {
		return fmt.Errorf("an assignment of version %d; expected 0 or more", a.Version)
	}
	return nil
}

// CheckPositions refuses positions that contradict themselves: fault.Corrupt.
func CheckPositions(at []Position) error {
	if err := (&Checkpoint{Positions: at}).check(); err != nil {
		return fmt.Errorf("%w: %w", err, fault.Corrupt)
	}
	return nil
}

func (c *Checkpoint) check() error {
	if c.From < 0 || c.Epoch < 0 {
		return fmt.Errorf("a checkpoint of epoch %d with a journal from offset %d on; expected 0 or more", c.Epoch, c.From)
	}
	if len(c.Positions) > MaxInputs {
		return fmt.Errorf("a checkpoint with %d positions; expected at most %d", len(c.Positions), MaxInputs)
	}
	inOrder := true // as members store them: then none is there twice
	for i, p := range c.Positions {
		before := Checkpoint{Positions: c.Positions[:i]}
		inOrder = inOrder && (i == 0 || p.isAfter(&c.Positions[i-1]))
		if !inOrder && before.Position(p.Storage, p.Partition) != nil {
			return fmt.Errorf("a checkpoint with two positions in partition %d of storage topic %d", p.Partition, p.Storage)
		}
		if p.Storage < 0 || p.Partition < 0 || p.Next < 0 {
			return fmt.Errorf("a checkpoint at offset %d of partition %d of storage topic %d; expected 0 or more", p.Next, p.Partition, p.Storage)
		}
		for _, r := range p.Done {
			if r[0] < 0 || r[0] >= r[1] {
				return fmt.Errorf("a checkpoint with the finished range [%d, %d)", r[0], r[1])
			}
		}
		last := int64(-1)
		for _, f := range p.Failing {
			if f.Offset <= last || f.Attempts < 1 {
				return fmt.Errorf("a checkpoint with the failing record %+v after offset %d", f, last)
			}
			last = f.Offset
		}
	}
	return nil
}

// isAfter reports whether the position is of a later partition.
func (p *Position) isAfter(q *Position) bool {
	return p.Storage > q.Storage || p.Storage == q.Storage && p.Partition > q.Partition
}

// tries bounds how often one call reads, decides and sends again.
const tries = 3

// resolve is Registry.Resolve for a transaction whose effect is recognized by its content.
func resolve(ctx context.Context, r *registry.Registry, t registry.Txn) (registry.Result, error) {
	res, _, err := r.Resolve(ctx, t)
	return res, err
}

// read looks a document up; doc is untouched when it is absent.
func read(ctx context.Context, r *registry.Registry, key string, doc any) (registry.Entry, error) {
	e, err := r.Lookup(ctx, key)
	if err != nil || e.Version == "" {
		return e, err
	}
	return e, decode(e, doc)
}
