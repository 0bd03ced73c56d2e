package filelog_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/testdisk"
	"github.com/ringfence/ringfence/internal/vfs"
)

func TestInspectCountsEveryRecordAndNamesDamage(t *testing.T) {
	t.Parallel()
	c := filelog.Config{Dir: t.TempDir(), SegmentBytes: filelog.MinSegmentBytes}
	l := open(t, c)
	topic := openTopic(t, l, "orders", 2)
	value := make([]byte, 20_000)
	for i := range 10 {
		if _, err := topic.Append(t.Context(), i%2, []commitlog.Record{{Value: value}, {Key: []byte("k")}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := topic.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := 0
	o := &filelog.InspectOptions{Record: func(filelog.FrameInfo, *driver.Record) error { seen++; return nil }}
	report, err := filelog.Inspect(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	got := report.Topics[0]
	if seen != 20 || got.Records != 20 || got.Next[0] != 10 || got.Next[1] != 10 || !got.Sealed || report.Damaged() {
		t.Fatalf("saw %d records in %+v", seen, got)
	}
	flip(t, got.Segments[0].File, 4096+500)
	if report, err = filelog.Inspect(t.Context(), c, nil); err != nil {
		t.Fatal(err)
	}
	d := report.Topics[0].Damage
	if len(d) != 1 || d[0].File != got.Segments[0].File || d[0].From != 4096 {
		t.Fatalf("damage reported as %+v", d)
	}
	_, _, err = topic.Read(t.Context(), 0, 0, nil, nil)
	var bad *commitlog.CorruptError
	if !errors.As(err, &bad) || bad.Position != 4096 || bad.Resume != 2 {
		t.Fatalf("a read of damaged data: %+v", err)
	}
	if recs, _, err := topic.Read(t.Context(), 0, bad.Resume, nil, nil); err != nil || recs[0].Offset != bad.Resume {
		t.Fatalf("a read behind the damage: %v, %v", recs, err)
	}
}

func flip(t *testing.T, file string, at int64) {
	t.Helper()
	f, err := os.OpenFile(filepath.Clean(file), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func TestInspectOfNoLogSaysSo(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, dir := range []string{empty, filepath.Join(empty, "missing")} {
		_, err := filelog.Inspect(t.Context(), filelog.Config{Dir: dir}, nil)
		if !errors.Is(err, commitlog.ErrNotFound) || !strings.Contains(err.Error(), dir) {
			t.Fatalf("inspected nothing: %v", err)
		}
		if _, err := os.Stat(filepath.Join(empty, "missing")); err == nil {
			t.Fatal("it was made")
		}
	}
}

func TestInspectNamesADamagedHeaderAndADamagedCopyOfIt(t *testing.T) {
	t.Parallel()
	c := filelog.Config{Dir: t.TempDir(), SegmentBytes: filelog.MinSegmentBytes}
	topic := openTopic(t, open(t, c), "orders", 2)
	if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("v")}}, nil); err != nil {
		t.Fatal(err)
	}
	inspect := func() filelog.TopicReport {
		report, err := filelog.Inspect(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		return report.Topics[0]
	}
	sound := inspect()
	if len(sound.Damage) != 0 {
		t.Fatalf("damage in a sound log: %+v", sound.Damage)
	}
	file, size := sound.Segments[0].File, sound.Segments[0].Size
	for _, header := range []int64{0, size - 4096} {
		flip(t, file, header+20)
		got := inspect()
		if len(got.Damage) != 1 || got.Damage[0].From != header || got.Damage[0].File != file {
			t.Errorf("a flipped bit in the header at %d is reported as %+v", header, got.Damage)
		}
		if got.Records != 1 {
			t.Errorf("%d records were read by the other header; expected 1", got.Records)
		}
		flip(t, file, header+20)
	}
}

// Nobody was promised anything of a segment that a power loss left with one copy of its header: the other one is
// no damage, unless the control page says that something of the segment was acknowledged.
func TestInspectTakesHalfAHeaderForDamageOnlyWhereSomethingWasPromised(t *testing.T) {
	t.Parallel()
	c := filelog.Config{Dir: t.TempDir(), SegmentBytes: filelog.MinSegmentBytes}
	topic := openTopic(t, open(t, c), "orders", 1)
	inspect := func() filelog.TopicReport {
		report, err := filelog.Inspect(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		return report.Topics[0]
	}
	for len(inspect().Segments) < 2 {
		if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: make([]byte, 10<<10)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	s := inspect().Segments[1]
	flip(t, s.File, s.Size-4096+20)
	if d := inspect().Damage; len(d) != 1 || d[0].File != s.File {
		t.Errorf("a record is acknowledged, and damage is %+v; expected the copy of the header", d)
	}
	if err := os.Remove(filepath.Join(filepath.Dir(s.File), "control")); err != nil { // the power took it too
		t.Fatal(err)
	}
	if d := inspect().Damage; len(d) != 0 {
		t.Errorf("nothing is known to be promised, and damage is %+v", d)
	}
}

// A page fault in a hole of a file takes a block on tmpfs, and is a SIGBUS when none is left.
func TestInspectTakesNoSpace(t *testing.T) {
	t.Parallel()
	disk, ok := testdisk.Small(t, "64m")
	if !ok {
		return
	}
	c := filelog.Config{Dir: disk.Dir}
	l := mustOpen(t, c)
	topic := openTopic(t, l, "t", 1)
	for range 30 {
		send(t, topic, "large", 200_000) // large records: the segments are not filled with zeros ahead
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	before := blocks(t, disk.Dir)
	report, err := filelog.Inspect(t.Context(), c, nil)
	if err != nil || report.Damaged() {
		t.Fatalf("inspected %+v: %v", report, err)
	}
	if after := blocks(t, disk.Dir); after != before {
		t.Errorf("%d blocks were taken before, %d are after it", before, after)
	}
}

// blocks counts what the files of a directory take.
func blocks(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var st syscall.Stat_t
		if err = errors.Join(err, syscall.Stat(path, &st)); err == nil {
			n += st.Blocks
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestInspectWritesNothing(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	c := filelog.Config{FS: mem}
	l := mustOpen(t, c)
	send(t, openTopic(t, l, "t", 1), "kept", 6)
	for range 2 {
		c.FS = vfs.Inject(mem.Process(), func(op *vfs.Op) error {
			if op.Kind.Changes() && op.Kind != vfs.OpOpen {
				t.Errorf("it asks for a %s of %s", op.Kind, op.Name)
			}
			return nil
		})
		report, err := filelog.Inspect(t.Context(), c, nil)
		if err != nil || report.Damaged() || report.Topics[0].Records != 1 {
			t.Errorf("inspected %+v: %v", report, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A log without its FORMAT file is not whole: no call takes it for a new one.
func TestAMissingFormatIsToldAlike(t *testing.T) {
	t.Parallel()
	c := filelog.Config{Dir: t.TempDir()}
	openTopic(t, open(t, c), "t", 1)
	file := filepath.Join(c.Dir, "log", "FORMAT")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	_, opened := filelog.Open(t.Context(), c)
	_, inspected := filelog.Inspect(t.Context(), c, nil)
	if !errors.Is(opened, commitlog.ErrCorrupt) || inspected == nil || inspected.Error() != opened.Error() || !strings.Contains(opened.Error(), "Put the file back") {
		t.Errorf("without FORMAT: to open gives %v, to inspect %v; expected one ErrCorrupt", opened, inspected)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file was made anew")
	}
}
