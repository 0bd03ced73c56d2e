package filelog

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/vfs"
)

// The file of the next segment is prepared without a lock. When it is done, somebody may have begun
// that segment without it, and others after that.
func TestAPreparedFileThatComesLateReplacesNoSegment(t *testing.T) {
	t.Parallel()
	s := aged(t, vfs.NewMem(1))
	top := s.page.Written().Number()
	for _, n := range []uint64{top, top - 1} {
		if err := s.zeroFile("late.tmp", MinSegmentBytes); err != nil {
			t.Fatal(err)
		}
		if err := s.install("late.tmp", n); err != nil {
			t.Fatalf("install a file for segment %d, %d is the newest: %v", n, top, err)
		}
		if _, err := s.headerOf(n); err != nil {
			t.Errorf("segment %d was replaced by a file that was prepared for it: %v", n, err)
		}
	}
	if s.page.Prepared() > top+1 {
		t.Errorf("segment %d is said to be prepared, %d is the newest", s.page.Prepared(), top)
	}
	for p := range 2 {
		_, next, _, err := s.bounds(p)
		if err != nil || next != 50 {
			t.Fatalf("partition %d ends at %d, %v; expected 50", p, next, err)
		}
		for at := range next {
			if recs, _, err := s.read(&driver.ReadRequest{Partition: p, Offset: at, MaxBytes: 1}, nil); err != nil || len(recs) != 1 {
				t.Fatalf("partition %d offset %d: %d records, %v", p, at, len(recs), err)
			}
		}
	}
}

// Readers stand where a partition was trimmed to. When the log has lost what was there, what comes
// next is behind that, and not in front of it, where nobody would read it.
func TestAPlanGoesOnBehindWhatWasTrimmed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		m := newModel(seed)
		m.sync()
		m.trim[1] = m.next[1] + 3
		p, ok := decide(m.evidence(m.synced))
		if !ok {
			t.Fatalf("seed %d: no plan", seed)
		}
		if p.next[1] < m.trim[1] || !p.fresh {
			t.Fatalf("seed %d: partition 1 was trimmed to %d, and the log goes on at %d (in a new segment: %v)", seed, m.trim[1], p.next[1], p.fresh)
		}
	}
}

// A reader that looks again when the log has gone on by whole segments never walks those in between.
// Who waits for what stands there hears of it all the same.
func TestAWaiterHearsOfRecordsInASegmentThatWasPassed(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	s := aged(t, mem)
	_, next, _, err := s.bounds(0)
	if err != nil {
		t.Fatal(err)
	}
	heard, err := s.view.register(0, next)
	if err != nil || heard == nil {
		t.Fatalf("nothing to wait for: %v", err)
	}
	_, topic := madeTopic(t, mem.Process(), Config{SegmentBytes: MinSegmentBytes}, commitlog.TopicConfig{Partitions: 2})
	last := s.page.Written().Number() + 3
	for p := 0; s.page.Written().Number() < last; p = 1 {
		if _, err := topic.Append(t.Context(), p, []commitlog.Record{{Value: make([]byte, 8<<10)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.view.news()
	select {
	case <-heard:
	default:
		t.Errorf("a record is at %d, and who waits for it sleeps on", next)
	}
}

// No segment is dropped before the one behind it is on stable storage: a power loss would leave nothing
// to go on from.
func TestWhatIsNotDurableIsNotDropped(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	disk := vfs.Inject(vfs.NewMem(1), func(op *vfs.Op) error {
		if broken.Load() && op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".seg") {
			return syscall.EIO
		}
		return nil
	})
	c := Config{SegmentBytes: MinSegmentBytes, Options: driver.Options{Durability: driver.OS}}
	_, topic := madeTopic(t, disk, c, commitlog.TopicConfig{Partitions: 1})
	broken.Store(true)
	for range 60 {
		if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: make([]byte, 8<<10)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	s := storeOf(t, disk, c)
	if err := s.withMeta(func() error {
		return s.drop(func(uint64, []int64) (string, error) { return "all", nil })
	}); err != nil {
		t.Fatal(err)
	}
	if low, synced, top := s.page.Low(), s.page.Synced().Number(), s.page.Written().Number(); low > synced || top < synced+3 {
		t.Errorf("the oldest segment is %d, the newest one on stable storage is %d, and %d is written", low, synced, top)
	}
}
