package logtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/commitlog"
)

// Life makes a topic on an empty log, puts each operation of the contract to it, and deletes it. It shows which
// rights the log needs at its store, and that callers see none of the store's troubles.
func Life(ctx context.Context, l *commitlog.Log) (err error) {
	c := commitlog.TopicConfig{Name: "t", Partitions: 1}
	producer := &commitlog.AppendOptions{Producer: commitlog.Producer{ID: commitlog.NewProducerID(), Epoch: 1}}
	var t *commitlog.Topic
	var first, second, again int64
	var ends, sealed []int64
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"create", func() error { return l.CreateTopic(ctx, c) }},
		{"alter", func() error { c.RetentionBytes = 1 << 40; return l.AlterTopic(ctx, c) }},
		{"list", func() error {
			list, err := l.Topics(ctx)
			return unless(err == nil && len(list) == 1 && list[0].Name == c.Name, list, err) // its retention may be listed later
		}},
		{"open", func() (err error) { t, err = l.Topic(ctx, c.Name); return err }},
		{"append", func() (err error) { first, err = t.Append(ctx, 0, records("a", "b"), nil); return err }},
		{"append as a producer", func() (err error) { second, err = t.Append(ctx, 0, records("c"), producer); return err }},
		{"append again", func() (err error) {
			again, err = t.Append(ctx, 0, records("c"), producer)
			return unless(err == nil && again == second, again, err)
		}},
		{"read", func() error {
			got, _, err := t.Read(ctx, 0, first, nil, nil)
			return unless(err == nil && len(got) > 0, len(got), err)
		}},
		{"find by time", func() error { _, err := t.OffsetAt(ctx, 0, 1); return err }},
		{"hold", func() error { return t.Hold(ctx, "g", []int64{second}) }},
		{"show a checkpoint", func() error {
			if !l.PublishesOffsets() {
				return nil
			}
			return l.PublishOffsets(ctx, "g", []commitlog.PublishedOffset{{Topic: c.Name, Next: second}})
		}},
		{"trim", func() error { return t.Trim(ctx, 0, second) }},
		{"seal", func() (err error) { ends, err = t.Seal(ctx); return err }},
		{"seal again", func() error {
			sealed, err = t.Seal(ctx)
			return unless(err == nil && slices.Equal(sealed, ends), sealed, err)
		}},
		{"bounds", func() error {
			b, err := t.Bounds(ctx, 0)
			return unless(err == nil && b == commitlog.Bounds{First: second, Next: ends[0], Sealed: true}, b, err)
		}},
		{"close", func() error { return t.Close() }},
		{"delete", func() error { return l.DeleteTopic(ctx, c.Name) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// unless is an error with what was found, unless it is right.
func unless(right bool, found any, err error) error {
	if right {
		return nil
	}
	if err == nil {
		return fmt.Errorf("found %+v", found)
	}
	return fmt.Errorf("found %+v: %w", found, err)
}
