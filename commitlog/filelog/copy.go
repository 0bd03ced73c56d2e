package filelog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// A copy shows all topics as they stood at one moment, the cut, as if the power had failed then: recovery makes
// of it what it makes of any crash. At the cut the copier has the write lock of every topic, notes where each
// ends, and lets go; what the caller copies in between, such as the registry, is of the same moment. Closed
// segments, which are nearly all there is, are copied before the cut, since they don't change; the rest is copied
// behind it, up to the noted ends. The bytes behind an end are zeros in the copy.
//
// The locks are taken in the order of the package, for all topics at once. Only the copier holds those of more
// than one topic, so no cycle is possible; but a stopped holder of one must not stop the others, so the copier
// gives up within writePatience and begins again.
//
// Retention may drop a segment that is not copied yet, or while it is read. What it drops it marks first (oldest.go),
// so a look at the mark behind the reading tells, and another cut is made.

// Sink takes the files of a copy.
type Sink interface {
	// File stores a file. One of the same name that was stored before counts no more.
	File(name string, size int64, content io.Reader) error
}

// CopyOptions say where a copy goes, and what else belongs to its moment.
type CopyOptions struct {
	Sink Sink
	// Before is called when the cut is near, Cut while nothing can be appended. Both are called again for another cut.
	Before, Cut func() error
}

// Copied is what Copy copied.
type Copied struct {
	Files  []string      // that count; what the sink has besides was dropped meanwhile
	Topics []TopicReport // what was found on the way, damage included
}

const (
	writePatience = 200 * time.Millisecond // with the write locks of other topics in hand
	mostCuts      = 20
)

// errAnotherCut says that something changed while the cut was made.
var errAnotherCut = errors.New("the topics changed meanwhile")

// Copy copies the log of a data directory, which other processes may use. It changes nothing there.
func Copy(ctx context.Context, c Config, o *CopyOptions) (*Copied, error) {
	l, done, err := looker(&c)
	if err != nil {
		return nil, err
	}
	defer done()
	cp := &copier{l: l, o: o, topics: map[string]*copying{}}
	defer cp.close()
	names, err := l.topicNames()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := cp.closedSegments(ctx, name); err != nil {
			return nil, err
		}
	}
	for n := 0; ; n++ {
		err := cp.cut(ctx)
		if err == nil {
			err = cp.rest(ctx)
		}
		switch {
		case err == nil:
			return cp.result()
		case !errors.Is(err, errAnotherCut) && !errors.Is(err, errNotLetGo):
			return nil, err
		case n == mostCuts:
			return nil, fmt.Errorf("copy the log in %s: no moment was found in %d tries; copy it when less happens there, or continue the stopped process: %w: %w", l.fs.Path(root), n, fault.Unavailable, err)
		}
		select {
		case <-time.After(time.Duration(n) * 10 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

type copier struct {
	l      *fileLog
	o      *CopyOptions
	topics map[string]*copying
	broken []TopicReport // topics whose topic file is damaged
}

// copying is one topic on its way.
type copying struct {
	name   string
	in     *inspector
	done   map[uint64]bool   // closed segments that are in the copy
	next   uint64            // the first segment that was not checked
	small  map[string][]byte // the other files, as of the cut
	list   listing           // as of the cut
	end    segment.Pos       // of the log, as of the cut; 0: there is nothing that recovery goes on from
	locked []vfs.File        // in the order in which they were taken
}

// letGo releases the locks, the last one first.
func (t *copying) letGo() {
	for _, f := range slices.Backward(t.locked) {
		_ = f.Close()
	}
	t.locked = nil
}

func (c *copier) close() {
	for _, t := range c.topics {
		t.letGo()
		_ = t.in.dir.Close()
	}
}

// topic is the one that has the name now; nil: there is none, or it can't be read.
func (c *copier) topic(name string) (*copying, error) {
	dir, m, err := openTopicDir(c.l.fs, name)
	switch {
	case errors.Is(err, fault.NotFound):
		return nil, nil
	case errors.Is(err, fault.Corrupt):
		c.broken = append(c.broken, *unknownTopic(c.l.fs, name, err))
		return nil, nil
	case err != nil:
		return nil, err
	}
	if t := c.topics[name]; t != nil && t.in.meta.ID == m.ID {
		return t, dir.Close()
	} else if t != nil {
		_ = t.in.dir.Close()
	}
	in := newInspector(dir, m, &InspectOptions{})
	t := &copying{name: name, in: in, done: map[uint64]bool{}}
	c.topics[name] = t
	return t, nil
}

// closedSegments copies those segments of a topic that do not change any more.
func (c *copier) closedSegments(ctx context.Context, name string) error {
	t, err := c.topic(name)
	if t == nil || err != nil {
		return err
	}
	numbers, oldest, err := t.in.bounds()
	if err != nil || t.in.end == 0 {
		return err // the cut will tell
	}
	t.in.promised = begun(oldest)
	for _, n := range numbers {
		if n >= t.in.end.Number() {
			break
		}
		if err := c.segment(ctx, t, n); err != nil && !errors.Is(err, errAnotherCut) {
			return err
		}
	}
	return nil
}

// rest copies what was not copied before the cut.
func (c *copier) rest(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(c.topics)) {
		t := c.topics[name]
		t.in.end = t.end
		for _, n := range t.kept() {
			if t.done[n] {
				continue
			}
			if err := c.segment(ctx, t, n); err != nil {
				return err
			}
		}
		if gone, err := topicGone(t.in.dir); gone || err != nil {
			return errors.Join(errAnotherCut, err)
		}
	}
	return nil
}

// kept are the segments that the copy has: all there are if nothing says where the log ends.
func (t *copying) kept() []uint64 {
	return slices.DeleteFunc(slices.Clone(t.list.kept()), func(n uint64) bool { return t.end != 0 && n > t.end.Number() })
}

// segment checks a segment and copies it, up to the end of the log. errAnotherCut: it was dropped meanwhile.
func (c *copier) segment(ctx context.Context, t *copying, n uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name := segmentName(n)
	f, err := t.in.dir.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return errAnotherCut
	}
	if err != nil {
		return explain("open "+t.in.dir.Path(name), err)
	}
	defer f.Close()
	before := t.in.report
	if n >= t.next {
		if err := t.in.segment(n, n == t.in.end.Number()); err != nil {
			return err
		}
	}
	content, size, err := t.content(f, n)
	if err != nil {
		return err
	}
	if err := c.o.Sink.File(path.Join(topicDir(t.name), name), size, content); err != nil {
		return err
	}
	_, oldest, err := t.in.list()
	if err == nil && oldest > n {
		t.in.report = before // what was read may be of another segment
		return errAnotherCut
	}
	t.done[n], t.next = n != t.in.end.Number(), max(t.next, n+1)
	return err
}

// content is what the copy has of a segment: all of a closed one, and the newest one with zeros behind the end.
func (t *copying) content(f vfs.File, n uint64) (io.Reader, int64, error) {
	size, err := f.Size()
	if err != nil {
		return nil, 0, explain("look at "+f.Name(), err)
	}
	h, _, err := readHeader(f, t.in.meta.ID, n)
	if n != t.in.end.Number() || err != nil {
		return io.NewSectionReader(f, 0, size), size, nil //nolint:nilerr // without a header it is copied as it is
	}
	limit := h.Limit(size)
	end := min(max(t.in.end.Off(), h.Length), limit)
	return io.MultiReader(
		io.NewSectionReader(f, 0, end), io.LimitReader(zeroReader{}, limit-end), io.NewSectionReader(f, limit, size-limit),
	), size, nil
}

type zeroReader struct{}

func (zeroReader) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// result stores the small files, and says which files count.
func (c *copier) result() (*Copied, error) {
	out := &Copied{Topics: c.broken}
	add := func(name string, b []byte) error {
		out.Files = append(out.Files, name)
		return c.o.Sink.File(name, int64(len(b)), strings.NewReader(string(b)))
	}
	if err := add(formatFile, fmt.Appendf(nil, "%s%d\n", formatText, formatLevel)); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.topics)) {
		t := c.topics[name]
		for _, file := range slices.Sorted(maps.Keys(t.small)) {
			if err := add(path.Join(topicDir(name), file), t.small[file]); err != nil {
				return nil, err
			}
		}
		for _, n := range t.kept() {
			out.Files = append(out.Files, path.Join(topicDir(name), segmentName(n)))
		}
		t.in.cutShort()
		out.Topics = append(out.Topics, t.in.report)
	}
	return out, nil
}

// Dirs are the directories that a log has besides those of its files.
func Dirs() []string { return []string{topicsDir, tmpDir} }
