package filelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// meta is the content of a topic's topic file.
type meta struct {
	Version int                `json:"version"`
	ID      uint64             `json:"id,string"`
	Config  driver.TopicConfig `json:"config"`
}

const (
	metaVersion = 1
)

// Topics lists the topics. One that is damaged costs only itself: it is left out, and said in the log.
func (l *fileLog) Topics(ctx context.Context) ([]driver.TopicConfig, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	names, err := l.topicNames()
	if err != nil {
		return nil, err
	}
	var out []driver.TopicConfig
	for _, name := range names {
		m, err := l.metaOf(name)
		switch {
		case err == nil && m.Config.Name != name: // a copy or a topic that was moved aside: the list names what can be opened
			l.c.Logger.Warn("a directory has the name of another topic; it is left out of the list", "directory", name, "topic", m.Config.Name)
		case err == nil:
			out = append(out, m.Config)
		case errors.Is(err, fault.NotFound): // deleted meanwhile, or half way
		default:
			l.c.Logger.Error("a topic can't be read; it is left out of the list", "topic", name, "error", err)
		}
	}
	return out, nil
}

// topicNames are the directories that may hold topics.
func (l *fileLog) topicNames() ([]string, error) {
	entries, err := l.fs.ReadDir(topicsDir)
	if err != nil {
		return nil, explain("list "+l.fs.Path(topicsDir), err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// metaOf reads what a topic was made with. fault.NotFound when there is none of that name.
func (l *fileLog) metaOf(name string) (*meta, error) {
	dir, m, err := openTopicDir(l.fs, name)
	if err != nil {
		return nil, err
	}
	c, err := altered(dir, m.Config)
	if err != nil {
		l.c.Logger.Error("the retention of a topic can't be read", "topic", name, "error", err)
	}
	m.Config = c
	return m, dir.Close()
}

// openTopicDir opens the directory of a topic and reads what the topic was made with.
func openTopicDir(fsys vfs.FS, name string) (vfs.Dir, *meta, error) {
	dir, err := fsys.OpenDir(topicDir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, notFound(name)
	}
	if err != nil {
		return nil, nil, explain(fmt.Sprintf("open topic %q", name), err)
	}
	m, err := readMeta(dir)
	if err == nil {
		return dir, m, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = whyNoTopic(dir)
	}
	return nil, nil, errors.Join(fmt.Errorf("topic %q: %w", name, err), dir.Close())
}

// readMeta reads the topic file of a directory.
func readMeta(dir vfs.FS) (*meta, error) {
	b, err := readFile(dir, metaFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	m := &meta{}
	if err == nil {
		err = decodeSummed(b, m)
	}
	if err == nil && m.Version > metaVersion {
		return nil, fmt.Errorf("%s has version %d, this program reads %d: %w", dir.Path(metaFile), m.Version, metaVersion, fault.Newer)
	}
	if err == nil && (m.Config.Partitions < 1 || m.Config.Partitions > commitlog.MaxPartitions) {
		err = fmt.Errorf("a topic of %d partitions: %w", m.Config.Partitions, fault.Corrupt)
	}
	if errors.Is(err, fault.Corrupt) {
		return nil, lostMeta(dir, err)
	}
	if err != nil {
		return nil, explain("read "+dir.Path(metaFile), err)
	}
	return m, nil
}

// lostMeta names the file that makes a topic, and the ways out when it is not what it was.
func lostMeta(dir vfs.FS, err error) error {
	return fmt.Errorf("%s, without which the topic can't be opened: %w (put the file back from a copy, or give up the topic and its records: ringfence topic delete)", dir.Path(metaFile), err)
}

// whyNoTopic says what a directory without a topic file is: a deleted topic, or a damaged one.
func whyNoTopic(dir vfs.FS) error {
	entries, err := dir.ReadDir(".")
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return fault.NotFound // it is removed
	}
	if err != nil {
		return explain("list "+dir.Path("."), err)
	}
	for _, e := range entries {
		if e.Name() == deletedFile || e.Name() == metaFile {
			return fault.NotFound
		}
	}
	return lostMeta(dir, fmt.Errorf("the file is missing: %w", fault.Corrupt))
}

func topicDir(name string) string { return path.Join(topicsDir, name) }

func notFound(name string) error {
	return fmt.Errorf("topic %q: %w", name, fault.NotFound)
}
