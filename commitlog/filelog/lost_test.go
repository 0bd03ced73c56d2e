package filelog_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/internal/vfs"
)

// What is missing is told from what was dropped, and what was never there.

// read is what a file holds.
func read(t *testing.T, fsys *vfs.Mem, name string) (b []byte) {
	t.Helper()
	rewrite(t, fsys, name, func(all []byte) { b = bytes.Clone(all) })
	return b
}

// check is what Inspect says is damaged in the topic.
func check(t *testing.T, fsys vfs.FS) []filelog.DamageReport {
	t.Helper()
	report, err := filelog.Inspect(t.Context(), filelog.Config{FS: fsys}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return report.Topics[0].Damage
}

// A log is trimmed until only its newest segment is left, and a crash leaves a control page from when
// an earlier one was written. Nothing is lost, so nothing is told, and offsets go on.
func TestAnOldPageKnowsNothingOfWhatWasDropped(t *testing.T) {
	t.Parallel()
	const control = "log/topics/t/control"
	mem := vfs.NewMem(1)
	next := rolled(t, mem)
	page := read(t, mem, control)
	then := newest(t, mem)
	l := mustOpen(t, smallSegments(mem, driver.Sync))
	topic := openTopic(t, l, "t", 1)
	for newest(t, mem) == then {
		next = send(t, topic, "new", 6000) + 1
	}
	if err := topic.Trim(t.Context(), 0, next); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := mem.Stat(segmentPath(then)); err == nil {
		t.Fatal("the segment that the old page names was not dropped")
	}
	rewrite(t, mem, control, func(b []byte) { copy(b, page) })
	if found := check(t, mem); len(found) > 0 {
		t.Errorf("an inspection finds %+v", found)
	}
	var said testlog.Buffer
	c := smallSegments(mem, driver.Sync)
	c.Logger = said.Logger()
	topic = openTopic(t, open(t, c), "t", 1)
	if at := send(t, topic, "later", 6); at != next {
		t.Errorf("an append went to offset %d; expected %d", at, next)
	}
	if got := values(t, topic, 0); len(got) != 1 {
		t.Errorf("it holds %d records, expected one", len(got))
	}
	if strings.Contains(said.String(), "damage") {
		t.Errorf("the log of the program tells of damage:\n%s", said.String())
	}
}

// The oldest segment is removed, before or after others were dropped: that is no retention. Readers
// are told what is lost and where to go on, and so is who checks the log.
func TestARemovedOldestSegmentIsNotTakenForRetention(t *testing.T) {
	t.Parallel()
	for name, trim := range map[string]bool{"of all": false, "behind what was trimmed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem(1)
			next := rolled(t, mem)
			oldest, first := 1, int64(0)
			if trim {
				l := mustOpen(t, smallSegments(mem, driver.Sync))
				topic := openTopic(t, l, "t", 1)
				first = next / 2
				if err := errors.Join(topic.Trim(t.Context(), 0, first), l.Close()); err != nil {
					t.Fatal(err)
				}
				for mem.Remove(segmentPath(oldest)) != nil {
					oldest++
				}
				if oldest == 1 {
					t.Fatal("nothing was dropped")
				}
			} else if err := mem.Remove(segmentPath(oldest)); err != nil {
				t.Fatal(err)
			}
			if found := check(t, mem); len(found) != 1 || !strings.HasSuffix(found[0].File, segmentPath(oldest)) {
				t.Errorf("an inspection finds %+v; expected that %s is missing", found, segmentPath(oldest))
			}
			topic := openTopic(t, open(t, smallSegments(mem, driver.Sync)), "t", 1)
			wantBounds(t, topic, first, next)
			_, _, err := topic.Read(t.Context(), 0, first, nil, nil)
			var damage *commitlog.CorruptError
			if !errors.As(err, &damage) || damage.Resume <= first || !strings.HasSuffix(damage.File, segmentPath(oldest)) {
				t.Fatalf("a read of what is lost: %v", err)
			}
			if recs, _, err := topic.Read(t.Context(), 0, damage.Resume, nil, nil); err != nil || recs[0].Offset != damage.Resume {
				t.Fatalf("a read behind it: %v, %v", recs, err)
			}
			if err := topic.Trim(t.Context(), 0, damage.Resume); err != nil {
				t.Fatal(err)
			}
			if found := check(t, mem); len(found) > 0 {
				t.Errorf("when it is trimmed away, an inspection finds %+v", found)
			}
		})
	}
}

// Segments that were dropped and that a crash brought back are removed again.
func TestDroppedSegmentsDoNotComeBack(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	next := rolled(t, mem)
	old := read(t, mem, segmentPath(1))
	l := mustOpen(t, smallSegments(mem, driver.Sync))
	topic := openTopic(t, l, "t", 1)
	if err := errors.Join(topic.Trim(t.Context(), 0, next-1), l.Close()); err != nil {
		t.Fatal(err)
	}
	if err := cut(mem, segmentPath(1)); err != nil {
		t.Fatal(err)
	}
	if err := overwrite(mem, segmentPath(1), 0, old); err != nil {
		t.Fatal(err)
	}
	if found := check(t, mem); len(found) > 0 {
		t.Errorf("an inspection finds %+v", found)
	}
	topic = openTopic(t, open(t, smallSegments(mem, driver.Sync)), "t", 1)
	wantBounds(t, topic, next-1, next)
	if _, err := mem.Stat(segmentPath(1)); err == nil {
		t.Error("a segment that was dropped is there again")
	}
}

// The file of the newest segment is cut to its header. The check of the log says what is missing, by
// the control page; without one it says at least that the file was longer.
func TestInspectSeesThatAFileWasCut(t *testing.T) {
	t.Parallel()
	for name, control := range map[string]bool{"with a control page": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem(1)
			l := mustOpen(t, smallSegments(mem, driver.Sync))
			send(t, openTopic(t, l, "t", 1), "kept", 600)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if !control {
				if err := cut(mem, "log/topics/t/control"); err != nil {
					t.Fatal(err)
				}
			}
			if err := cutTo(mem, segmentPath(1), segment.Block); err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, d := range check(t, mem) {
				said += d.Detail + "\n"
			}
			if !strings.Contains(said, "what stood behind is missing") || control != strings.Contains(said, "acknowledged frames are missing") {
				t.Errorf("an inspection says %q", said)
			}
		})
	}
}

// A power loss may take one of the two copies of a segment's header. Whoever recovers restores it.
func TestTheCopyOfAHeaderIsRestored(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	rolled(t, mem)
	file := segmentPath(newest(t, mem))
	rewrite(t, mem, file, func(b []byte) { clear(b[len(b)-segment.Block:]) })
	if found := check(t, mem); len(found) != 1 {
		t.Errorf("an inspection finds %+v; expected one damage", found)
	}
	if err := open(t, smallSegments(mem, driver.Sync)).Close(); err != nil {
		t.Fatal(err)
	}
	openTopic(t, open(t, smallSegments(mem, driver.Sync)), "t", 1)
	if found := check(t, mem); len(found) > 0 {
		t.Errorf("after a recovery an inspection finds %+v", found)
	}
}

// What a power loss takes behind the last promise is no damage, neither in the midst of a segment nor of
// the log: whoever opens the topic next cuts it off. A check that is made before says the same.
func TestInspectCallsWhatWasNotPromisedNoDamage(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		mem := vfs.NewMem(seed)
		topic := openTopic(t, open(t, smallSegments(mem.Process(), driver.OS)), "t", 1)
		for range 12 {
			send(t, topic, "not synced", 9000)
		}
		disk := mem.Crash()
		if found := check(t, disk); len(found) > 0 {
			t.Fatalf("seed %d: before anybody opened the log after a power loss: %+v", seed, found)
		}
		openTopic(t, open(t, smallSegments(disk.Process(), driver.OS)), "t", 1)
		if found := check(t, disk); len(found) > 0 {
			t.Fatalf("seed %d: while somebody has it open: %+v", seed, found)
		}
	}
}
