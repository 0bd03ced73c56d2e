package filelog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// Report is what Inspect found.
type Report struct {
	Topics []TopicReport `json:"topics"`
}

// Damaged tells whether anything is wrong in any topic.
func (r *Report) Damaged() bool {
	for i := range r.Topics {
		if len(r.Topics[i].Damage) > 0 {
			return true
		}
	}
	return false
}

// TopicReport is one topic: its segments, counts, and what is damaged.
type TopicReport struct {
	Config   driver.TopicConfig `json:"config"`
	Dir      string             `json:"dir"`
	Segments []SegmentReport    `json:"segments"`
	Frames   int64              `json:"frames"`
	Records  int64              `json:"records"`
	Next     []int64            `json:"next"` // by partition, as far as the frames tell
	Sealed   bool               `json:"sealed"`
	Damage   []DamageReport     `json:"damage"`
	// Untrusted: the control page is from before a restart of the host; the next open recovers,
	// and the end of the log is where sound frames end.
	Untrusted bool `json:"untrusted,omitempty"`
}

// SegmentReport is one segment file.
type SegmentReport struct {
	File    string `json:"file"`
	Number  uint64 `json:"number"`
	Size    int64  `json:"size"` // bytes
	End     int64  `json:"end"`  // byte behind the last frame
	Created int64  `json:"created"`
	Frames  int64  `json:"frames"`
	Records int64  `json:"records"`
}

// DamageReport names damaged bytes.
type DamageReport struct {
	File   string `json:"file"`
	From   int64  `json:"from"` // byte in File
	To     int64  `json:"to"`
	Detail string `json:"detail"`
}

// FrameInfo is one frame, for InspectOptions.Frame.
type FrameInfo struct {
	Topic    string        `json:"topic"`
	File     string        `json:"file"`
	Position int64         `json:"position"` // byte in File
	Frame    segment.Frame `json:"frame"`
}

// InspectOptions say what Inspect looks at. nil looks at all topics and checks every record.
type InspectOptions struct {
	Topic string // "": all
	// Frame is called for each sound frame; an error ends the inspection and is returned.
	Frame func(FrameInfo) error
	// Record is called for each record of each sound frame, whose bytes it must not keep.
	Record func(FrameInfo, *driver.Record) error
}

// Inspect reads the log in a data directory, every byte of it, and changes nothing. Dir or FS of
// c say where; others may use the log meanwhile.
func Inspect(ctx context.Context, c Config, o *InspectOptions) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if o == nil {
		o = &InspectOptions{}
	}
	c.setDefaults()
	l := &fileLog{c: c, fs: c.FS}
	if c.FS == nil {
		fsys, err := vfs.OpenOS(c.Dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("data directory %s does not exist: %w", c.Dir, fault.NotFound)
		}
		if err != nil {
			return nil, explain("open data directory "+c.Dir, err)
		}
		defer fsys.Close()
		l.fs = fsys
	}
	if done, err := l.checkFormat(); err != nil {
		return nil, err
	} else if !done {
		return nil, fmt.Errorf("%s: expected a file log here, found none: %w", l.fs.Path(root), fault.NotFound)
	}
	topics, err := l.Topics(ctx)
	if err != nil {
		return nil, err
	}
	report := &Report{Topics: []TopicReport{}}
	for i := range topics {
		if o.Topic != "" && o.Topic != topics[i].Name {
			continue
		}
		t, err := inspectTopic(ctx, l.fs, &topics[i], o)
		if err != nil {
			return report, err
		}
		report.Topics = append(report.Topics, *t)
	}
	if o.Topic != "" && len(report.Topics) == 0 {
		return nil, notFound(o.Topic)
	}
	return report, nil
}

// inspector walks one topic.
type inspector struct {
	fs      vfs.FS
	o       *InspectOptions
	meta    *meta
	written segment.Pos // 0: not known
	report  TopicReport
	recs    []driver.Record
}

func inspectTopic(ctx context.Context, fsys vfs.FS, c *driver.TopicConfig, o *InspectOptions) (*TopicReport, error) {
	dir := topicDir(c.Name)
	m, err := readMeta(fsys, dir)
	if err != nil {
		return nil, err
	}
	in := &inspector{fs: fsys, o: o, meta: m}
	in.report = TopicReport{
		Config: m.Config, Dir: fsys.Path(dir), Next: make([]int64, m.Config.Partitions),
		Segments: []SegmentReport{}, Damage: []DamageReport{},
	}
	in.written = in.readWritten(dir)
	in.report.Untrusted = in.written == 0
	s := &store{fs: fsys, dir: dir}
	numbers, err := s.segmentNumbers()
	if err != nil {
		return nil, explain("list "+fsys.Path(dir), err)
	}
	for i, n := range numbers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if i > 0 && n != numbers[i-1]+1 {
			in.damage(fsys.Path(path.Join(dir, segmentName(n-1))), &segment.Damage{Detail: "the segment is missing"})
		}
		if err := in.segment(dir, n, i == len(numbers)-1); err != nil {
			return nil, err
		}
	}
	return &in.report, nil
}

// readWritten is the end of the log as the control page has it, or 0 when it is not to be trusted.
func (in *inspector) readWritten(dir string) segment.Pos {
	b, err := readFile(in.fs, path.Join(dir, "control"))
	le := binary.LittleEndian
	if err != nil || len(b) < pageFirst || le.Uint64(b[pageMagic:]) != magicWord || le.Uint64(b[pageBoot:]) != bootWord(in.fs.BootID()) {
		return 0
	}
	return segment.Pos(le.Uint64(b[pageWritten:]))
}

func (in *inspector) damage(file string, d *segment.Damage) {
	in.report.Damage = append(in.report.Damage, DamageReport{File: file, From: d.From, To: d.To, Detail: d.Detail})
}

func (in *inspector) segment(dir string, n uint64, last bool) error {
	name := path.Join(dir, segmentName(n))
	file := in.fs.Path(name)
	f, err := in.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return explain("open "+file, err)
	}
	defer f.Close()
	h, size, err := readHeader(f, in.meta.ID, n)
	if err != nil && (last || in.written != 0 && n > in.written.Number()) {
		return nil // a file in preparation
	}
	switch {
	case errors.Is(err, segment.ErrHeader), errors.Is(err, fault.NotFound):
		in.damage(file, &segment.Damage{To: segment.Block, Detail: err.Error()})
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", file, err)
	case in.written != 0 && n > in.written.Number():
		return nil // a file in preparation
	}
	m, err := f.Map(size, false)
	if err != nil {
		return explain("map "+file, err)
	}
	defer m.Close()
	end, known := in.end(dir, h, size)
	w := &segmentWalk{in: in, h: h, file: file, data: m.Bytes(), r: SegmentReport{File: file, Number: n, Size: size, Created: h.Created}}
	if in.report.Frames == 0 {
		copy(in.report.Next, h.Bases)
	}
	if e := guard(func() { w.headers(h.Limit(size)); err = w.run(end, known) }); e != nil {
		in.damage(file, &segment.Damage{From: w.r.End, To: end, Detail: e.Error()})
	}
	in.report.Segments = append(in.report.Segments, w.r)
	in.report.Frames += w.r.Frames
	in.report.Records += w.r.Records
	return err
}

// end is where the frames of a segment end, and whether that is known or only a bound.
func (in *inspector) end(dir string, h *segment.Header, size int64) (int64, bool) {
	if in.written.Number() == h.Number {
		return in.written.Off(), true
	}
	s := &store{fs: in.fs, dir: dir, meta: in.meta}
	if after, err := s.headerOf(h.Number + 1); err == nil {
		return after.PrevEnd, true
	}
	return h.Limit(size), false
}
