package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// Groups are the groups of one registry that consume topics of one log: members in this process, and
// the orders of admins.
type Groups struct {
	Registry *registry.Registry
	Sessions *protocol.Sessions // shared by its members; nil: each has its own
	Log      *commitlog.Log
	Topics   *topic.Handles
	Logger   *slog.Logger
}

// List lists the groups, sorted by name, with their members, without units and lag: it reads no
// checkpoints. An unreadable one says so in Damaged, and has only a name.
func (c *Groups) List(ctx context.Context) ([]api.Group, error) {
	names, err := protocol.ListGroups(ctx, c.Registry)
	if err != nil {
		return nil, err
	}
	infos := make([]api.Group, 0, len(names))
	for _, name := range names {
		d, err := group.Outline(ctx, c.Registry, name)
		if errors.Is(err, fault.NotFound) {
			continue // deleted since it was listed
		}
		if errors.Is(err, fault.Corrupt) || errors.Is(err, fault.Invalid) { // damaged, or of a newer version
			infos = append(infos, api.Group{Name: name, State: stateDamaged, Members: []api.Member{}, Damaged: err.Error()})
			continue
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, Summary(name, d))
	}
	return infos, nil
}

// Pause stops intake of the given partitions of a group, or of all with none given.
func (c *Groups) Pause(ctx context.Context, name string, partitions ...int) error {
	g, err := protocol.NewGroup(c.Registry, name)
	if err != nil {
		return err
	}
	return g.Pause(ctx, group.Operator(), partitions...)
}

// Resume ends a pause of the given partitions, or every pause with none given.
func (c *Groups) Resume(ctx context.Context, name string, partitions ...int) error {
	g, err := protocol.NewGroup(c.Registry, name)
	if err != nil {
		return err
	}
	return g.Resume(ctx, group.Operator(), partitions...)
}

// Destroy removes all that is left of a group. Its retention hold is released where its topic is
// known, and else in every readable topic: any may have it.
func (c *Groups) Destroy(ctx context.Context, group string) error {
	g, t, err := c.Open(ctx, group)
	damaged := errors.Is(err, fault.Corrupt) || errors.Is(err, fault.Invalid)
	newer := g == nil && errors.Is(err, fault.Newer)
	if g == nil && errors.Is(err, fault.NotFound) {
		return c.releaseForgotten(ctx, group, true, err)
	}
	if err != nil && (newer || !damaged && !errors.Is(err, fault.NotFound) || g == nil && !damaged) {
		return err
	}
	if g == nil {
		why := err
		if g, err = protocol.NewGroup(c.Registry, group); err != nil {
			return err
		}
		c.Logger.Warn("force removes a group that can't be read, and its progress", "group", group, "error", why)
	}
	if err := g.Destroy(ctx); err != nil || !damaged && t == nil {
		return err
	}
	if t != nil {
		return c.release(ctx, group, t)
	}
	all, err := c.Topics.Catalog().List(ctx)
	for i := range all {
		if t, unread := c.Topics.Current(ctx, all[i].Name); unread == nil {
			err = errors.Join(err, c.release(ctx, group, t))
		}
	}
	return err
}

// Delete removes a group and its progress. fault.Conflict while it has live members. given: its topic is
// deleted next, and may be damaged.
func (c *Groups) Delete(ctx context.Context, group string, given bool) error {
	g, t, err := c.Open(ctx, group)
	switch {
	case g != nil && (errors.Is(err, fault.NotFound) || given && errors.Is(err, fault.Corrupt)): // there is nothing to release
		return g.Delete(ctx)
	case errors.Is(err, fault.NotFound):
		return c.releaseForgotten(ctx, group, false, err)
	case err != nil:
		return err
	}
	if err := g.Delete(ctx); err != nil {
		return err
	}
	return c.release(ctx, group, t)
}

// release forgets the retention hold of a deleted group, whichever group has its name now.
func (c *Groups) release(ctx context.Context, group string, t *topic.Topic) error {
	g, err := protocol.NewGroup(c.Registry, group)
	if err != nil {
		return err
	}
	return ReleaseHold(ctx, g, t)
}

// releaseForgotten ends by force the retention holds of a group that the registry does not know. They keep the records of a
// topic for ever if no member comes any more; none is the error when there are none, or without force.
func (c *Groups) releaseForgotten(ctx context.Context, group string, force bool, none error) error {
	all, err := c.Topics.Catalog().List(ctx)
	for i := 0; i < len(all) && err == nil; i++ {
		t, unread := c.Topics.Current(ctx, all[i].Name)
		if unread != nil {
			continue // another one's, or moved
		}
		var held Held
		switch held, err = HeldBy(ctx, t, group); {
		case err != nil || !held.known():
		case force:
			err, none = c.release(ctx, group, t), nil
		default:
			return fmt.Errorf("%w: topic %q keeps records for it, as another registry may know it; check the URLs, and if they are right, ringfence group delete --force %s ends that", none, all[i].Name, group)
		}
	}
	return errors.Join(err, none)
}

// Open opens an existing group and its topic, in its present life. When only its topic is gone, the group is
// returned with fault.NotFound.
func (c *Groups) Open(ctx context.Context, name string) (*protocol.Group, *topic.Topic, error) {
	g, err := protocol.NewGroup(c.Registry, name)
	if err != nil {
		return nil, nil, err
	}
	meta, err := g.Meta(ctx)
	if err != nil {
		return nil, nil, err
	}
	t, err := c.Topics.Current(ctx, meta.Topic)
	return g.Within(meta.Life), t, err
}

// DeleteAllOf removes the groups that consume a topic, which is deleted next. Without force it is fault.Conflict
// when there is one, or an unreadable one that may be; with force too when a newer version wrote one. A dry run
// only checks that.
func (c *Groups) DeleteAllOf(ctx context.Context, name string, force, dry bool) error {
	groups, err := c.List(ctx)
	if err != nil {
		return err
	}
	var using []string
	for _, g := range groups {
		if g.Damaged != "" {
			if err := c.passOver(ctx, name, &g, force, dry); err != nil {
				return err
			}
		}
		if g.Topic == name {
			using = append(using, g.Name)
		}
	}
	if len(using) > 0 && !force {
		by := "group " + using[0] + "; --force (Force in Go) drops its progress too"
		if len(using) > 1 {
			by = "groups " + strings.Join(using, ", ") + "; --force (Force in Go) drops their progress too"
		}
		return fmt.Errorf("topic %q is consumed by %s: %w", name, by, fault.Conflict)
	}
	if dry {
		return nil
	}
	for _, g := range using {
		if err := c.Delete(ctx, g, true); err != nil && !errors.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// passOver returns what speaks against deleting a topic beside an unreadable group; nil: force passes over it, and
// the log names the group. A group of a newer version may consume the topic: force does not pass over it.
func (c *Groups) passOver(ctx context.Context, topicName string, g *api.Group, force, dry bool) error {
	of, err := protocol.NewGroup(c.Registry, g.Name)
	if err != nil {
		return err
	}
	if _, err := of.Meta(ctx); errors.Is(err, fault.Newer) {
		return fmt.Errorf("topic %q may be consumed by group %q: %s: %w", topicName, g.Name, g.Damaged, fault.Conflict)
	}
	if !force {
		return fmt.Errorf("topic %q may be consumed by group %q, which can't be read (%s); --force (Force in Go) goes on without it: %w", topicName, g.Name, g.Damaged, fault.Conflict)
	}
	if !dry {
		c.Logger.Warn("force passes over a group that can't be read, and may consume the topic", "topic", topicName, "group", g.Name, "error", g.Damaged)
	}
	return nil
}
