package protocol

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/registry"
)

// Pause stops intake: of the whole group, or of the given units only. Owners keep their units.
func (g *Group) Pause(ctx context.Context, by string, units ...int) error {
	return g.control(ctx, by, func(c *Control) error {
		if len(units) == 0 {
			c.Paused = true
			return nil
		}
		c.PausedUnits = append(c.PausedUnits, units...)
		return nil
	})
}

// Resume undoes Pause: of everything, or of the given units only. ErrConflict for some units of a group that is paused
// as a whole.
func (g *Group) Resume(ctx context.Context, by string, units ...int) error {
	return g.control(ctx, by, func(c *Control) error {
		switch {
		case len(units) == 0:
			c.Paused, c.PausedUnits = false, nil
		case c.Paused:
			return fmt.Errorf("group %q is paused as a whole, and goes on as a whole: \"ringfence group resume %s\": %w", g.name, g.name, registry.ErrConflict)
		}
		c.PausedUnits = slices.DeleteFunc(c.PausedUnits, func(u int) bool { return slices.Contains(units, u) })
		return nil
	})
}

// control changes the group's control document. After a lost reply and a conflict it does not
// repeat the change, but looks for its own document there: others may have changed it since.
func (g *Group) control(ctx context.Context, by string, change func(*Control) error) error {
	var sent []byte // with no reply
	for {
		meta, metaEntry, err := g.existing(ctx)
		if err != nil {
			return err
		}
		g = g.Within(meta.Life) // and no later one of the name
		var c Control
		e, err := read(ctx, g.r, g.ControlKey(), &c)
		switch {
		case err != nil:
			return err
		case sent != nil && bytes.Equal(e.Value, sent):
			return nil
		case sent != nil:
			return fmt.Errorf("group %q: %q changed what is paused meanwhile; look at it: %w", g.name, c.By, registry.ErrUnknown)
		}
		if err := change(&c); err != nil {
			return err
		}
		c.By, c.At = by, time.Now().UnixMilli()
		slices.Sort(c.PausedUnits)
		c.PausedUnits = slices.Compact(c.PausedUnits)
		for _, u := range c.PausedUnits {
			if u < 0 || u >= meta.Units {
				return fmt.Errorf("group %q has partitions 0 to %d; %d is out of range: %w", g.name, meta.Units-1, u, registry.ErrInvalid)
			}
		}
		value := registry.Encode(c)
		res, lost, err := g.r.Resolve(ctx, registry.Txn{
			Checks: []registry.Check{{Key: e.Key, Version: e.Version}, {Key: metaEntry.Key, Version: metaEntry.Version}},
			Puts:   []registry.Put{{Key: e.Key, Value: value}},
		})
		if err != nil || !errors.Is(res.Err, registry.ErrConflict) {
			return errors.Join(err, res.Err)
		}
		if lost {
			sent = value
		}
	}
}
