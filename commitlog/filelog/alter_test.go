package filelog

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// Who has the topic open in another process drops nothing by a retention that was taken back, also
// before it has looked for another.
func TestARetentionThatWasTakenBackDropsNothingInOtherProcesses(t *testing.T) {
	t.Parallel()
	s := aged(t, vfs.NewMem(1))
	for n := s.page.Low() + 1; n <= s.page.Written().Number(); n++ {
		stamp(t, s, n, s.now().before(2*time.Hour, 0))
	}
	if err := s.hold("group", []int64{-1, -1}); err != nil {
		t.Fatal(err)
	}
	other, err := Open(t.Context(), Config{FS: s.above, SegmentBytes: MinSegmentBytes})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	alter := func(c commitlog.TopicConfig) {
		t.Helper()
		c.Name, c.Partitions = "t", 2
		if err := other.AlterTopic(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	low := s.page.Low()
	alter(commitlog.TopicConfig{})
	if err := s.retain(); err != nil || s.page.Low() != low {
		t.Errorf("a retention that was taken back gives %v and drops segments %d to %d", err, low, s.page.Low())
	}
	alter(commitlog.TopicConfig{RetentionBytes: MinSegmentBytes})
	s.followRetention() // as the maintenance does now and then
	if err := s.retain(); err != nil || s.page.Low() == low {
		t.Errorf("a retention that was given by another process gives %v and drops nothing", err)
	}
}

func TestADamagedRetentionKeepsEverythingUntilItIsSetAnew(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	l, err := Open(t.Context(), Config{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := driver.TopicConfig{Name: "t", Partitions: 1, RetentionBytes: 1}
	want := c.WithRetentionOf(driver.TopicConfig{RetentionAgeMillis: 5})
	for _, err := range []error{l.CreateTopic(t.Context(), c), l.AlterTopic(t.Context(), want)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	now := func() driver.TopicConfig {
		t.Helper()
		list, err := l.Topics(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0]
	}
	f, err := mem.OpenFile(topicDir("t")+"/"+retentionFile, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte("x"), 3)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if got := now(); got.RetentionBytes != 0 || got.RetentionAgeMillis != 0 {
		t.Errorf("a damaged retention is taken for %+v; want all to be kept", got)
	}
	if err := l.AlterTopic(t.Context(), want); err != nil || now() != want {
		t.Errorf("set anew it is %+v, %v; want %+v", now(), err, want)
	}
	if err := l.DeleteTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if err := l.AlterTopic(t.Context(), want); !errors.Is(err, fault.NotFound) {
		t.Errorf("altering a deleted topic: %v; want not found", err)
	}
}

// A retention by size drops the oldest segment when the others alone are more than it: what is asked to be kept stays.
func TestRetentionBytesCountsWhatStaysBehindTheOldestSegment(t *testing.T) {
	t.Parallel()
	s := aged(t, vfs.NewMem(1))
	if err := s.hold("group", []int64{-1, -1}); err != nil {
		t.Fatal(err)
	}
	low, top := s.page.Low(), s.page.Written()
	others := top.Off()
	for n := low + 1; n < top.Number(); n++ {
		info, err := s.fs.Stat(segmentName(n))
		if err != nil {
			t.Fatal(err)
		}
		others += info.Size()
	}
	l, err := Open(t.Context(), Config{FS: s.above, SegmentBytes: MinSegmentBytes})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct{ keep, dropped int64 }{{others, 0}, {others - 1, 1}} {
		if err := l.AlterTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 2, RetentionBytes: c.keep}); err != nil {
			t.Fatal(err)
		}
		if err := s.retain(); err != nil || s.page.Low() != low+uint64(c.dropped) {
			t.Errorf("%d bytes stand behind the oldest segment, %d are to be kept: %v, %d segments dropped; expected %d", others, c.keep, err, s.page.Low()-low, c.dropped)
		}
	}
}
