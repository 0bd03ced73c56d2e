package filelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// retentionFile has the retention of a topic that was altered: a driver.TopicConfig, of which nothing
// else counts. The topic file stays as it was made: its name is what makes the directory a topic.
// It is changed under the meta lock, under which retention reads it before it drops anything.
const retentionFile = "retention"

// AlterTopic gives a topic the retention of c. Other processes that have it open drop nothing by the
// old one once it returns, and notice within lookEvery that there is something to drop.
func (l *fileLog) AlterTopic(ctx context.Context, c driver.TopicConfig) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	dir, m, err := openTopicDir(l.fs, c.Name)
	if err != nil {
		return err
	}
	if m.Config.Partitions != c.Partitions {
		err = fmt.Errorf("topic %q has %d partitions; expected were %d: %w", c.Name, m.Config.Partitions, c.Partitions, fault.Exists)
	} else {
		err = alterIn(ctx, dir, c)
	}
	if err = errors.Join(err, dir.Close()); err != nil {
		return err
	}
	l.mu.Lock()
	s := l.stores[c.Name]
	l.mu.Unlock()
	if s != nil && s.gate.enter() {
		defer s.leave()
		s.followRetention()
		s.nudge()
	}
	return nil
}

// alterIn stores the retention of c in the directory of its topic.
func alterIn(ctx context.Context, dir vfs.Dir, c driver.TopicConfig) error {
	what := fmt.Sprintf("change the retention of topic %q", c.Name)
	lock, err := dir.OpenFile("meta.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return explain(what, err)
	}
	defer lock.Close()
	if err := lockWithin(ctx, lock, func() {}); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: another process, probably stopped, has %s: %w: %w", what, dir.Path("meta.lock"), fault.NotDone, err)
		}
		return explain(what, err)
	}
	if gone, err := topicGone(dir); err != nil || gone {
		return errors.Join(notFound(c.Name), err)
	}
	b, err := encodeSummed(&c)
	if err == nil {
		err = replaceFile(dir, retentionFile, b)
	}
	if err != nil {
		return explain(what, err)
	}
	return nil
}

// altered is a configuration with the retention that the topic in dir has by now. A damaged file keeps
// everything: it may have asked for more than the topic was made with.
func altered(dir vfs.FS, c driver.TopicConfig) (_ driver.TopicConfig, err error) {
	b, err := readFile(dir, retentionFile)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	var now driver.TopicConfig
	if err == nil {
		err = decodeSummed(b, &now)
	}
	if err != nil {
		return c.WithRetentionOf(driver.TopicConfig{}), fmt.Errorf("%s can't be read, and the topic keeps everything until its retention is set anew (ringfence topic alter): %w", dir.Path(retentionFile), err)
	}
	return c.WithRetentionOf(now), nil
}

// config is what the topic was made with, with the retention that this process has seen last.
func (s *store) config() driver.TopicConfig { return *s.retention.Load() }

// followRetention reads the retention that the topic has by now.
func (s *store) followRetention() {
	c, err := altered(s.fs, s.meta.Config)
	if err != nil && s.config() != c {
		s.log.Error("retention is off", "error", err)
	}
	s.retention.Store(&c)
}
