package ringfence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// Groups lists the consumer groups, sorted by name, with their members, without units and lag.
func (c *Client) Groups(ctx context.Context) ([]GroupInfo, error) {
	names, err := c.reg.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]GroupInfo, 0, len(names))
	for _, name := range names {
		d, err := group.Describe(ctx, c.reg, name)
		if errors.Is(err, ErrNotFound) {
			continue // deleted since it was listed
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, groupInfo(name, d))
	}
	return infos, nil
}

// SeekOptions are the options of SeekGroup.
type SeekOptions struct {
	Partitions []int // empty: all
	// DryRun finds the positions, or why there are none, and changes nothing.
	DryRun bool
}

// SeekGroup sends a group, live or not, to a place in its topic and returns the new positions.
// Live members go on from there; what they were processing can't be committed any more.
func (c *Client) SeekGroup(ctx context.Context, group string, to SeekTarget, opts *SeekOptions) ([]PositionInfo, error) {
	g, t, err := c.group(ctx, group)
	if err != nil {
		return nil, err
	}
	if opts == nil {
		opts = &SeekOptions{}
	}
	units := slices.Clone(opts.Partitions)
	if len(units) == 0 {
		for u := range t.Units() {
			units = append(units, u)
		}
	}
	// All targets are found before the first unit moves: a bad one must leave the group as it was.
	targets := make([]registry.Checkpoint, len(units))
	var infos []PositionInfo
	for i, u := range units {
		ps, err := seekPositions(ctx, t, u, to)
		if err != nil {
			return nil, err
		}
		for _, p := range ps {
			targets[i].Positions = append(targets[i].Positions, registry.Position{Storage: p.Storage, Partition: p.Partition, Next: p.Checkpoint})
		}
		infos = append(infos, ps...)
	}
	if opts.DryRun {
		return infos, nil
	}
	for i, u := range units {
		if err := g.Seek(ctx, u, targets[i], "seek to "+to.String()); err != nil {
			return nil, fmt.Errorf("seek of group %q, partition %d (%d of %d are done): %w", group, u, i, len(units), err)
		}
	}
	return infos, nil
}

// seekPositions finds where a target lies in the partitions of a unit.
func seekPositions(ctx context.Context, t *topic.Topic, unit int, to SeekTarget) ([]PositionInfo, error) {
	if unit < 0 || unit >= t.Units() {
		return nil, fmt.Errorf("topic %q has partitions 0 to %d; %d is out of range: %w", t.Document().Name, t.Units()-1, unit, ErrInvalid)
	}
	var infos []PositionInfo
	for storage, s := range t.Document().Storage {
		if unit >= s.Partitions {
			continue
		}
		st, err := t.Storage(storage)
		if err != nil {
			return nil, err
		}
		b, err := st.Bounds(ctx, unit)
		if err != nil {
			return nil, err
		}
		p := PositionInfo{Storage: storage, Partition: unit, First: b.First, Next: b.Next}
		if p.Checkpoint, err = to.resolve(ctx, st, unit, b); err != nil {
			return nil, err
		}
		p.Lag = b.Next - p.Checkpoint
		infos = append(infos, p)
	}
	return infos, nil
}

// resolve finds the offset of a target in one partition.
func (s SeekTarget) resolve(ctx context.Context, st *commitlog.Topic, partition int, b commitlog.Bounds) (int64, error) {
	switch s.kind {
	case "latest":
		return b.Next, nil
	case "time":
		at, err := st.OffsetAt(ctx, partition, s.at.UnixMilli())
		return max(at, b.First), err
	case "offset":
		if s.offset < b.First || s.offset > b.Next {
			return 0, fmt.Errorf("partition %d keeps offsets %d to %d; can't seek to %d (earliest and latest always work): %w",
				partition, b.First, b.Next, s.offset, ErrInvalid)
		}
		return s.offset, nil
	}
	return b.First, nil
}

// PauseGroup stops intake of the given partitions, or of all with none given. Running handlers
// finish, the partitions keep their owners.
func (c *Client) PauseGroup(ctx context.Context, group string, partitions ...int) error {
	g, err := c.reg.Group(group)
	if err != nil {
		return err
	}
	return g.Pause(ctx, whoami(), partitions...)
}

// ResumeGroup ends a pause of the given partitions, or every pause with none given.
func (c *Client) ResumeGroup(ctx context.Context, group string, partitions ...int) error {
	g, err := c.reg.Group(group)
	if err != nil {
		return err
	}
	return g.Resume(ctx, whoami(), partitions...)
}

// DeleteGroup removes a group and its progress. ErrConflict while it has live members.
func (c *Client) DeleteGroup(ctx context.Context, group string) error {
	g, t, err := c.group(ctx, group)
	switch {
	case errors.Is(err, ErrNotFound) && g != nil: // its topic is gone already
		return g.Delete(ctx)
	case err != nil:
		return err
	}
	if err := g.Delete(ctx); err != nil {
		return err
	}
	return releaseRetention(ctx, group, t)
}

// group opens what is needed to work on a group that exists. When only its topic is gone, the
// group is returned with ErrNotFound.
func (c *Client) group(ctx context.Context, name string) (*registry.Group, *topic.Topic, error) {
	g, err := c.reg.Group(name)
	if err != nil {
		return nil, nil, err
	}
	meta, err := g.Meta(ctx)
	if err != nil {
		return nil, nil, err
	}
	t, err := c.open(ctx, meta.Topic)
	return g, t, err
}

// whoami names this process in documents, for people.
func whoami() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "host"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}
