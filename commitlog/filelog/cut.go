package filelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// cut notes where all topics stand at one moment.
func (c *copier) cut(ctx context.Context) error {
	names, err := c.l.topicNames()
	if err != nil {
		return err
	}
	c.broken = nil
	var all []*copying
	defer func() {
		for _, t := range all {
			t.letGo()
		}
	}()
	for _, name := range names {
		t, err := c.topic(name)
		if err != nil {
			return err
		}
		if t == nil {
			continue
		}
		all = append(all, t)
		if err := t.prepare(); err != nil {
			return err
		}
	}
	if err := c.o.Before(); err != nil {
		return err
	}
	for _, t := range all {
		if err := t.lock("write.lock", writePatience); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, t := range all {
		if gone, err := topicGone(t.in.dir); gone || err != nil {
			return errors.Join(errAnotherCut, err)
		}
		t.end = t.in.endNow()
	}
	if err := c.o.Cut(); err != nil {
		return err
	}
	maps.DeleteFunc(c.topics, func(_ string, t *copying) bool {
		gone := !slices.Contains(all, t)
		if gone {
			_ = t.in.dir.Close()
		}
		return gone
	})
	if again, err := c.l.topicNames(); err != nil || !slices.Equal(names, again) {
		return errors.Join(errAnotherCut, err) // what the registry names may be among the new ones
	}
	return nil
}

// lock takes one of the locks of a topic, or is errNotLetGo.
func (t *copying) lock(name string, patience time.Duration) error {
	f, err := t.open(name)
	if f == nil || err != nil {
		return err
	}
	if err := lockFor(patience, f); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// open opens a lock file; nil: there is none, as in a copy that left it out and that no process has opened.
func (t *copying) open(name string) (vfs.File, error) {
	f, err := t.in.dir.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if gone, err := topicGone(t.in.dir); gone || err != nil {
			return nil, errors.Join(errAnotherCut, err)
		}
		return nil, nil
	}
	if err != nil {
		return nil, explain("open "+t.in.dir.Path(name), err)
	}
	t.locked = append(t.locked, f)
	return f, nil
}

// prepare takes the locks of opening and of retention, and reads what lies under the latter.
func (t *copying) prepare() error {
	for _, name := range []string{"open.lock", "meta.lock"} {
		if err := t.lock(name, lockPatience); err != nil {
			return err
		}
	}
	alive, err := t.open("alive.lock")
	if err != nil {
		return err
	}
	t.in.opened = false
	if alive != nil {
		alone, err := alive.TryLock(true)
		if err != nil {
			return explain("lock "+t.in.dir.Path("alive.lock"), err)
		}
		t.in.opened = !alone
	}
	s := &store{fs: t.in.dir}
	if t.list, err = s.list(); err != nil {
		return explain("list "+t.in.dir.Path("."), err)
	}
	entries, err := t.in.dir.ReadDir(".")
	if err != nil {
		return explain("list "+t.in.dir.Path("."), err)
	}
	t.small = map[string][]byte{}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, holdPrefix) && !slices.Contains([]string{metaFile, "trim", retentionFile, "damage"}, name) {
			continue
		}
		if t.small[name], err = readFile(t.in.dir, name); err != nil {
			return explain("read "+t.in.dir.Path(name), err)
		}
	}
	for _, name := range lockNames {
		t.small[name] = nil
	}
	if t.list.oldest > 0 {
		t.small[oldestName(t.list.oldest)] = nil
	}
	return nil
}

// endNow is where the log ends. The caller has the locks of opening and of writing.
func (in *inspector) endNow() segment.Pos {
	if in.opened {
		return in.readPage().Written()
	}
	return in.foresee()
}
