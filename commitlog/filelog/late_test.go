package filelog

import (
	"testing"

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
