package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// The progress of groups at the target: that of each unit is given once for ever, in one transaction with the
// note that it was (applyUnit). Without the note a cut-over that is repeated would send a group back that has
// gone on at the target meanwhile.

func (m *Mirror) applyGroups(ctx context.Context, p *plan) error {
	if err := m.alone(ctx); err != nil {
		return err
	}
	for i, meta := range p.Groups {
		if err := m.applyGroup(ctx, p.Names[i], meta, p.Controls[i]); err != nil {
			return fmt.Errorf("group %q at the target: %w", p.Names[i], err)
		}
	}
	return nil
}

func (m *Mirror) applyGroup(ctx context.Context, name string, meta protocol.Meta, control protocol.Control) error {
	g, err := protocol.NewGroup(m.c.To.Registry, name)
	if err != nil {
		return err
	}
	if !m.c.SameRegistry {
		if meta, err = g.EnsureMeta(ctx, meta); err != nil {
			return err
		}
		if control.Paused {
			err = g.Pause(ctx, control.By)
		}
		if len(control.PausedUnits) > 0 {
			err = errors.Join(err, g.Pause(ctx, control.By, control.PausedUnits...))
		}
		if err != nil {
			return err
		}
	}
	for unit := range meta.Units {
		if err := m.applyUnit(ctx, g, unit); err != nil {
			return err
		}
	}
	return nil
}

// carried is the checkpoint that a unit of a group gets at the target.
type carried struct {
	protocol.Checkpoint
	// Applied: it got it, in the transaction that noted this. Whatever its checkpoint is now was
	// processed at the target, and stays.
	Applied bool `json:"applied,omitempty"`
}

func (m *Mirror) readCarried(ctx context.Context, group string, unit int) (c carried, version registry.Version, err error) {
	e, err := m.c.To.Registry.Get(ctx, m.carriedKey(group, unit))
	if err != nil {
		return c, "", err
	}
	c, err = decodeCarried(e.Key, e.Value)
	return c, e.Version, err
}

// decodeCarried reads what cutOver has noted. It becomes a checkpoint at the target, so what can't be one is
// refused before it damages the group there.
func decodeCarried(key string, value []byte) (c carried, err error) {
	if err := json.Unmarshal(value, &c); err != nil {
		return carried{}, fmt.Errorf("registry key %q: %w: %w", key, fault.Corrupt, err)
	}
	if err := protocol.CheckPositions(c.Positions); err != nil {
		return carried{}, fmt.Errorf("registry key %q: %w", key, err)
	}
	return c, nil
}

// applyUnit gives a unit its checkpoint, once for ever.
func (m *Mirror) applyUnit(ctx context.Context, g *protocol.Group, unit int) error {
	for try := 1; ; try++ {
		c, version, err := m.readCarried(ctx, g.Name(), unit)
		switch {
		case errors.Is(err, fault.NotFound) || err == nil && c.Applied:
			return nil
		case err != nil:
			return err
		}
		c.Applied = true
		key := m.carriedKey(g.Name(), unit)
		err = g.SeekWith(ctx, unit, c.Checkpoint, "carried over from another log", registry.Txn{
			Checks: []registry.Check{{Key: key, Version: version}}, Puts: []registry.Put{{Key: key, Value: registry.Encode(c)}},
		})
		if try == applyTries || !errors.Is(err, fault.Conflict) {
			return err
		}
	}
}

// applyTries: somebody else may do the same cut-over.
const applyTries = 3

// applyAgain lets the groups get their checkpoints once more: members that had opened the topic at the
// source, in the same registry, may have stored places there.
func (m *Mirror) applyAgain(ctx context.Context, p *plan) error {
	for i, meta := range p.Groups {
		for unit := range meta.Units {
			c, version, err := m.readCarried(ctx, p.Names[i], unit)
			if errors.Is(err, fault.NotFound) {
				continue
			}
			if err != nil {
				return err
			}
			c.Applied = false
			key := m.carriedKey(p.Names[i], unit)
			if _, err := m.c.To.Registry.Txn(ctx, registry.Txn{
				Checks: []registry.Check{{Key: key, Version: version}}, Puts: []registry.Put{{Key: key, Value: registry.Encode(c)}}, Quiet: true,
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
