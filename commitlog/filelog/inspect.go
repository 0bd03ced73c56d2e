package filelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

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
	// Same, when not nil, says which names of topics Topic stands for.
	Same func(name, topic string) bool
	// Frame is called for each sound frame; an error ends the inspection and is returned.
	Frame func(FrameInfo) error
	// Record is called for each record of each sound frame, whose bytes it must not keep.
	Record func(FrameInfo, *driver.Record) error
}

// Inspect reads the log in a data directory, every byte of it, and changes nothing. Dir or FS of
// c say where; others may use the log meanwhile.
func Inspect(ctx context.Context, c Config, o *InspectOptions) (*Report, error) {
	if o == nil {
		o = &InspectOptions{}
	}
	l, done, err := looker(&c)
	if err != nil {
		return nil, err
	}
	defer done()
	names, err := l.topicNames()
	if err != nil {
		return nil, err
	}
	report := &Report{Topics: []TopicReport{}}
	for _, name := range names {
		if o.Topic != "" && o.Topic != name && (o.Same == nil || !o.Same(name, o.Topic)) {
			continue
		}
		t, err := inspectTopic(ctx, l.fs, name, o)
		if errors.Is(err, fault.NotFound) {
			continue // deleted
		}
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

// looker is a log that is only looked at; done lets go of it.
func looker(c *Config) (l *fileLog, done func(), err error) {
	if err := c.Validate(); err != nil {
		return nil, nil, err
	}
	c.setDefaults()
	l, done = &fileLog{c: *c, fs: c.FS}, func() {}
	if c.FS == nil {
		fsys, err := vfs.OpenOS(c.Dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("data directory %s does not exist: %w", c.Dir, fault.NotFound)
		}
		if err != nil {
			return nil, nil, explain("open data directory "+c.Dir, err)
		}
		l.fs, done = fsys, func() { _ = fsys.Close() }
	}
	l.fs = vfs.ReadOnly(l.fs)
	found, err := l.checkFormat()
	if err == nil && !found {
		err = fmt.Errorf("%s: expected a file log here, found none: %w", l.fs.Path(root), fault.NotFound)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return l, done, nil
}

// inspector walks one topic.
type inspector struct {
	dir      vfs.Dir
	o        *InspectOptions
	meta     *meta
	end      segment.Pos // of the log; 0: not known
	promised segment.Pos // below it nothing can be missing; 0: not known
	opened   bool        // a process has the topic open; Copy knows
	ends     []ending
	report   TopicReport
	recs     []driver.Record
}

func inspectTopic(ctx context.Context, fsys vfs.FS, name string, o *InspectOptions) (*TopicReport, error) {
	dir, m, err := openTopicDir(fsys, name)
	if errors.Is(err, fault.Corrupt) {
		return unknownTopic(fsys, name, err), nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	in := newInspector(dir, m, o)
	numbers, oldest, err := in.bounds()
	if err != nil {
		return nil, err
	}
	in.promised = max(in.readPage().Hint(), begun(oldest))
	if len(numbers) > 0 && oldest > 0 {
		in.missing(oldest, numbers[0])
	}
	for i, n := range numbers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if i > 0 {
			in.missing(numbers[i-1]+1, n)
		}
		if err := in.segment(n, i == len(numbers)-1); err != nil {
			return nil, err
		}
	}
	switch {
	case len(numbers) > 0:
		in.missing(numbers[len(numbers)-1]+1, in.promised.Number()+1)
	case in.promised != 0:
		in.missing(in.promised.Number(), in.promised.Number()+1)
	}
	in.cutShort()
	if gone, err := topicGone(dir); gone || err != nil {
		return nil, errors.Join(notFound(name), err)
	}
	if len(in.report.Segments)+len(in.report.Damage) == 0 { // a topic is made with one
		in.damage(dir.Path("."), &segment.Damage{Detail: "no segment is there"})
	}
	return &in.report, nil
}

func newInspector(dir vfs.Dir, m *meta, o *InspectOptions) *inspector {
	in := &inspector{dir: dir, o: o, meta: m}
	config, bad := altered(dir, m.Config)
	in.report = TopicReport{
		Config: config, Dir: dir.Path("."), Next: make([]int64, m.Config.Partitions),
		Segments: []SegmentReport{}, Damage: []DamageReport{},
	}
	if bad != nil {
		in.damage(dir.Path(retentionFile), &segment.Damage{Detail: bad.Error()})
	}
	return in
}

// missing reports the segments from one number up to another, which are not there.
func (in *inspector) missing(from, to uint64) {
	for n := from; n < to; n++ {
		in.damage(in.dir.Path(segmentName(n)), &segment.Damage{Detail: "the segment is missing"})
	}
}

// unknownTopic is what there is to say of a topic whose topic file is damaged.
func unknownTopic(fsys vfs.FS, name string, err error) *TopicReport {
	file := path.Join(topicDir(name), metaFile)
	bad := DamageReport{File: fsys.Path(file), Detail: err.Error()}
	if info, err := fsys.Stat(file); err == nil {
		bad.To = info.Size()
	}
	return &TopicReport{
		Config: driver.TopicConfig{Name: name}, Dir: fsys.Path(topicDir(name)),
		Next: []int64{}, Segments: []SegmentReport{}, Damage: []DamageReport{bad},
	}
}

func (in *inspector) damage(file string, d *segment.Damage) {
	in.report.Damage = append(in.report.Damage, DamageReport{File: file, From: d.From, To: d.To, Detail: d.Detail})
}

func (in *inspector) segment(n uint64, last bool) error {
	name := segmentName(n)
	file := in.dir.Path(name)
	f, err := in.dir.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return in.dropped(n)
	}
	if err != nil {
		return explain("open "+file, err)
	}
	defer f.Close()
	h, size, err := readHeader(f, in.meta.ID, n)
	if err != nil && last && n > in.promised.Number() {
		return nil // a file in preparation
	}
	switch {
	case errors.Is(err, segment.ErrHeader), errors.Is(err, fault.NotFound):
		in.damage(file, &segment.Damage{To: segment.Block, Detail: err.Error()})
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", file, err)
	}
	m, err := f.Map(size, false)
	if err != nil {
		return explain("map "+file, err)
	}
	defer m.Close()
	end, known := in.endOf(h, size)
	w := &segmentWalk{in: in, h: h, file: file, data: m.Bytes(), r: SegmentReport{File: file, Number: n, Size: size, Created: h.Created}}
	if in.report.Frames == 0 {
		copy(in.report.Next, h.Bases)
	}
	if e := guard(func() { w.headers(h.Limit(size)); err = w.run(end, known) }); e != nil {
		in.damage(file, &segment.Damage{From: w.r.End, To: end, Detail: e.Error()})
	}
	in.promised = max(in.promised, h.Synced, w.claims)
	in.ends = append(in.ends, ending{segment.At(n, max(w.r.End, h.Length)), file, size, h.Size, known, w.tail, w.copies})
	in.report.Segments = append(in.report.Segments, w.r)
	in.report.Frames += w.r.Frames
	in.report.Records += w.r.Records
	return err
}

// bounds is list of the segments that are part of the log, with its end where that can be told.
func (in *inspector) bounds() (numbers []uint64, oldest uint64, err error) {
	for try := 0; ; try++ {
		if in.end = in.readEnd(); try == 3 {
			in.end = 0
		}
		if numbers, oldest, err = in.list(); err != nil || in.end == 0 {
			return numbers, oldest, err
		}
		if oldest <= in.end.Number() { // else what was looked at is dropped already
			return slices.DeleteFunc(numbers, func(n uint64) bool { return n > in.end.Number() }), oldest, nil
		}
	}
}

// list gives the segments, and the number of the oldest one that is kept. Others may drop some
// meanwhile: what they drop they mark first, so the mark is read last.
func (in *inspector) list() (segments []uint64, oldest uint64, err error) {
	s := &store{fs: in.dir}
	before, err := s.list()
	if err != nil {
		return nil, 0, explain("list "+in.dir.Path("."), err)
	}
	after, err := s.list()
	if err != nil {
		return nil, 0, explain("list "+in.dir.Path("."), err)
	}
	before.oldest = after.oldest
	return before.kept(), before.oldest, nil
}

// ending is what was found at the end of a segment.
type ending struct {
	at             segment.Pos // behind the last frame
	file           string
	size, declared int64
	known          bool             // the next segment says where the frames end
	tail           *segment.Damage  // what follows the last sound frame; nil: nothing
	copies         []segment.Damage // of the two copies of the header
}

// cutShort reports what is missing at the ends of files, and of headers, when all is known of what was
// promised: of a segment that was not, the power may have taken one of the two copies.
func (in *inspector) cutShort() {
	for _, e := range in.ends {
		n, least := e.at.Number(), in.promised.Off()
		if !e.known && in.promised.Number() == n && e.at.Off() < least {
			bad := segment.Damage{From: e.at.Off(), To: least, Detail: "acknowledged frames are missing"}
			if e.tail != nil {
				bad.Detail += ": " + e.tail.Detail
			}
			in.damage(e.file, &bad)
		}
		for i := range e.copies {
			if in.promised > segment.At(n, 0) {
				in.damage(e.file, &e.copies[i])
			}
		}
		if e.size < e.declared && in.promised > segment.At(n, 0) {
			in.damage(e.file, &segment.Damage{From: e.size, To: e.declared, Detail: fmt.Sprintf(
				"the file was cut: it has %d bytes, and its header says %d; what stood behind is missing", e.size, e.declared)})
		}
	}
}

// dropped deals with a segment that was listed a moment ago: others may have dropped it meanwhile.
func (in *inspector) dropped(n uint64) error {
	_, oldest, err := in.list()
	if err == nil && oldest <= n {
		in.missing(n, n+1)
	}
	return err
}

// endOf is where the frames of a segment end, and whether that is known or only a bound.
func (in *inspector) endOf(h *segment.Header, size int64) (int64, bool) {
	if in.end.Number() == h.Number {
		return min(in.end.Off(), h.Limit(size)), false
	}
	s := &store{fs: in.dir, meta: in.meta}
	if after, err := s.headerOf(h.Number + 1); err == nil {
		return after.PrevEnd, true
	}
	return h.Limit(size), false
}
