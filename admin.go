package ringfence

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// Groups lists the consumer groups, sorted by name, with their members, without units and lag: it reads
// no checkpoints. One that can't be read says so in Damaged, and has only a name.
func (c *Client) Groups(ctx context.Context) ([]GroupInfo, error) {
	names, err := c.reg.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]GroupInfo, 0, len(names))
	for _, name := range names {
		d, err := group.Outline(ctx, c.reg, name)
		if errors.Is(err, ErrNotFound) {
			continue // deleted since it was listed
		}
		if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrInvalid) { // damaged, or of a newer version
			infos = append(infos, GroupInfo{Name: name, Damaged: err.Error()})
			continue
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, consumer.Summary(name, d))
	}
	return infos, nil
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

// DeleteGroupOptions are the options of DeleteGroup.
type DeleteGroupOptions struct {
	// Force removes also a group that has members, which end with ErrNotFound, and one whose documents
	// can't be read.
	Force bool
}

// DeleteGroup removes a group and its progress. ErrConflict while it has live members.
func (c *Client) DeleteGroup(ctx context.Context, group string, opts *DeleteGroupOptions) error {
	if err := c.ofNoSubscription(ctx, group); err != nil {
		return err
	}
	if opts != nil && opts.Force {
		return c.destroyGroup(ctx, group)
	}
	return c.deleteGroup(ctx, group, false)
}

// destroyGroup removes what there is of a group. What it held is released where its topic is known, and
// else in every topic that can be read: it may have been any.
func (c *Client) destroyGroup(ctx context.Context, group string) error {
	g, t, err := c.group(ctx, group)
	damaged := errors.Is(err, ErrCorrupt) || errors.Is(err, ErrInvalid)
	if err != nil && (!damaged && !errors.Is(err, ErrNotFound) || g == nil && !damaged) {
		return err
	}
	if g == nil {
		if g, err = c.reg.Group(group); err != nil {
			return err
		}
	}
	if err := g.Destroy(ctx); err != nil || !damaged && t == nil {
		return err
	}
	if t != nil {
		return consumer.ReleaseHold(ctx, group, t)
	}
	all, err := c.catalog.List(ctx)
	for i := range all {
		if t, unread := c.topics.Current(ctx, all[i].Name); unread == nil {
			err = errors.Join(err, consumer.ReleaseHold(ctx, group, t))
		}
	}
	return err
}

// deleteGroup is DeleteGroup. given: its topic is deleted next, and may be damaged.
func (c *Client) deleteGroup(ctx context.Context, group string, given bool) error {
	g, t, err := c.group(ctx, group)
	switch {
	case g != nil && (errors.Is(err, ErrNotFound) || given && errors.Is(err, ErrCorrupt)): // there is nothing to release
		return g.Delete(ctx)
	case err != nil:
		return err
	}
	if err := g.Delete(ctx); err != nil {
		return err
	}
	return consumer.ReleaseHold(ctx, group, t)
}

// group opens what is needed to work on a group that exists, in its present life. When only its topic is gone, the
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
	t, err := c.topics.Current(ctx, meta.Topic)
	return g.Within(meta.Life), t, err
}

// whoami names this process in documents, for people.
func whoami() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "host"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}
