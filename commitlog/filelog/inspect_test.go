package filelog_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
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
