package ring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/registry"
)

// ensureMeta makes the ring, or checks that it is as cfg asks.
func ensureMeta(ctx context.Context, cfg Config) (metaDoc, error) {
	k := keys{cfg.Name}
	for {
		e, err := cfg.Registry.Get(ctx, k.meta())
		switch {
		case errors.Is(err, registry.ErrNotFound):
			want := metaDoc{Format: format, Mode: cmp.Or(cfg.Mode, Anchor), Slots: cfg.Slots, Created: time.Now().UnixMilli()}
			if want.Mode == Table || want.Slots > 0 {
				want.Mode, want.Slots = Table, cmp.Or(want.Slots, defaultSlots)
			}
			_, err := cfg.Registry.Txn(ctx, registry.Txn{
				Checks: []registry.Check{{Key: k.meta()}},
				Puts:   []registry.Put{{Key: k.meta(), Value: registry.Encode(want)}},
			})
			if err != nil && !errors.Is(err, registry.ErrConflict) && !errors.Is(err, registry.ErrUnknown) {
				return metaDoc{}, fmt.Errorf("ring %q: %w", cfg.Name, err)
			}
			continue // read what is there now
		case err != nil:
			return metaDoc{}, fmt.Errorf("ring %q: %w", cfg.Name, err)
		}
		var have metaDoc
		if err := decode(e, &have); err != nil {
			return metaDoc{}, err
		}
		if have.Deleting {
			if err := removeAll(ctx, cfg.Registry, cfg.Name, e.Version); err != nil {
				return metaDoc{}, err
			}
			continue
		}
		return have, have.suits(cfg)
	}
}

// suits checks that a ring is as a member asks.
func (m metaDoc) suits(cfg Config) error {
	if cfg.Mode != "" && cfg.Mode != m.Mode {
		return fmt.Errorf("ring %q is in mode %q, asked for was %q; use another name or delete it: %w", cfg.Name, m.Mode, cfg.Mode, ErrExists)
	}
	if cfg.Slots != 0 && cfg.Slots != m.Slots {
		return fmt.Errorf("ring %q has %d slots, asked for were %d; use another name or delete it: %w", cfg.Name, m.Slots, cfg.Slots, ErrExists)
	}
	return nil
}
