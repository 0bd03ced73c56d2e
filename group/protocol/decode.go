package protocol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// decode reads the stored form. What is no document, or one that this program can't have written,
// is an error that names the key, and what to do where there is something.
func decode(e registry.Entry, doc any) error {
	err := decodeOnly(e, doc)
	if d, ok := doc.(interface{ remedy() string }); ok && errors.Is(err, fault.Corrupt) {
		return fmt.Errorf("%w; %s", err, d.remedy())
	}
	return err
}

// ErrNewer says that a newer version wrote a document that this one can't read: it is sound, and deleting it is
// no remedy.
var ErrNewer = errors.New("a newer version wrote it: upgrade ringfence")

// Mentions is how often a document has a name in it, as a string of its own: what a newer version wrote can't be
// read, and what it is about need not be harmed for that.
func Mentions(doc []byte, name string) (n int) {
	d := json.NewDecoder(bytes.NewReader(doc))
	for {
		switch t, err := d.Token(); {
		case err != nil:
			return n
		case t == json.Token(name):
			n++
		}
	}
}

func decodeOnly(e registry.Entry, doc any) error {
	err := json.Unmarshal(e.Value, doc)
	if d, ok := doc.(interface{ newer() error }); ok {
		if err := d.newer(); err != nil { // then its fields may be other ones
			return fmt.Errorf("registry key %q: %w", e.Key, err)
		}
	}
	if err != nil {
		return fmt.Errorf("registry key %q holds no valid document (written by a newer version?): %w: %w", e.Key, fault.Corrupt, err)
	}
	if d, ok := doc.(interface{ check() error }); ok {
		if err := d.check(); err != nil {
			return fmt.Errorf("registry key %q: %w", e.Key, err)
		}
	}
	return nil
}

func (m *Meta) newer() error {
	if m.Format <= metaFormat {
		return nil
	}
	return fmt.Errorf("a group of format %d; this version reads up to %d: %w: %w", m.Format, metaFormat, ErrNewer, registry.ErrInvalid)
}

func (m *Meta) check() error {
	switch {
	case m.Life == "":
		return fmt.Errorf("a group without a life: %w", fault.Corrupt)
	case m.Units < 1 || m.Units > MaxUnits || m.First < 0 || m.First > m.Units || m.Initial < 0 || m.Initial > m.Units:
		return fmt.Errorf("a group of %d units, from %d on, %d at first; expected 1 to %d units: %w", m.Units, m.First, m.Initial, MaxUnits, fault.Corrupt)
	}
	return nil
}

func (*Meta) remedy() string {
	return "put it back as it was, or remove the group with its checkpoints: ringfence group delete --force"
}

func (o *Owner) check() error {
	if !epoch(o.Epoch) || !epoch(o.After) {
		return fmt.Errorf("an owner in epoch %d, after %d; expected 0 to %d: %w", o.Epoch, o.After, int64(MaxEpoch), fault.Corrupt)
	}
	return nil
}

// epoch tells whether a number can be an epoch, or 0 for none.
func epoch(n int64) bool { return n >= 0 && n <= MaxEpoch }

func (a *Assignment) check() error {
	if a.Version < 0 || a.Version > MaxEpoch {
		return fmt.Errorf("an assignment of version %d; expected 0 to %d: %w", a.Version, int64(MaxEpoch), fault.Corrupt)
	}
	return nil
}

// isAfter says whether the position is of a later partition.
func (p *Position) isAfter(q *Position) bool {
	return p.Storage > q.Storage || p.Storage == q.Storage && p.Partition > q.Partition
}

// CheckPositions refuses positions that nobody can have stored, as those of a checkpoint are: fault.Corrupt.
func CheckPositions(at []Position) error { return (&Checkpoint{Positions: at}).check() }

func (c *Checkpoint) check() error {
	if c.From < 0 {
		return fmt.Errorf("a checkpoint with a journal from offset %d on: %w", c.From, fault.Corrupt)
	}
	if !epoch(c.Epoch) {
		return fmt.Errorf("a checkpoint of epoch %d; expected 0 to %d: %w", c.Epoch, int64(MaxEpoch), fault.Corrupt)
	}
	if err := c.Deliveries.check(); err != nil {
		return err
	}
	if len(c.Positions) > MaxInputs {
		return fmt.Errorf("a checkpoint with %d positions; expected at most %d: %w", len(c.Positions), MaxInputs, fault.Corrupt)
	}
	inOrder := true // as members store them: then none is there twice
	for i, p := range c.Positions {
		before := Checkpoint{Positions: c.Positions[:i]}
		inOrder = inOrder && (i == 0 || p.isAfter(&c.Positions[i-1]))
		if !inOrder && before.Position(p.Storage, p.Partition) != nil {
			return fmt.Errorf("a checkpoint with two positions in partition %d of storage topic %d: %w", p.Partition, p.Storage, fault.Corrupt)
		}
		if p.Storage < 0 || p.Partition < 0 || p.Next < 0 {
			return fmt.Errorf("a checkpoint at offset %d of partition %d of storage topic %d: %w", p.Next, p.Partition, p.Storage, fault.Corrupt)
		}
		for _, r := range p.Done {
			if r[0] < 0 || r[0] >= r[1] {
				return fmt.Errorf("a checkpoint with the finished range [%d, %d): %w", r[0], r[1], fault.Corrupt)
			}
		}
		if err := checkFailing(p.Failing); err != nil {
			return err
		}
	}
	return nil
}

const (
	// MaxAttempts is how often a record may have been tried, here and in the journal of a subscription.
	MaxAttempts = 1 << 30

	lastMoment = 1 << 53 // what any reader of JSON can hold
)

func checkFailing(all []Failing) error {
	if len(all) > MaxFailing {
		return fmt.Errorf("a checkpoint with %d failing records; expected at most %d: %w", len(all), MaxFailing, fault.Corrupt)
	}
	last := int64(-1)
	for _, f := range all {
		moment := func(ms int64) bool { return ms >= 0 && ms <= lastMoment }
		if f.Offset <= last || f.Attempts < 1 || f.Attempts > MaxAttempts || !moment(f.Since) || !moment(f.Due) || !moment(f.Pause) {
			return fmt.Errorf("a checkpoint with the failing record %+v after offset %d: %w", f, last, fault.Corrupt)
		}
		last = f.Offset
	}
	return nil
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
