package filelog_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/commitlog/filelog/internal/page"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// A page, a frame or a header can name any segment for the newest: nobody counts up to it.
func TestASegmentThatIsPromisedFarAwayIsToldInOneLine(t *testing.T) {
	t.Parallel()
	c := filelog.Config{Dir: t.TempDir()}
	l := open(t, c)
	topic := openTopic(t, l, "t", 2)
	if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("v")}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(topic.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	disk, err := vfs.OpenOS(filepath.Join(c.Dir, "log/topics/t"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = disk.Close() }()
	for _, n := range []uint64{limits.MissingSegments + 3, 1 << 20} {
		p, err := page.Open(t.Context(), disk, "control", 2)
		if err != nil {
			t.Fatal(err)
		}
		p.Adopt(1, segment.At(n, segment.Block), nil)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		report, err := filelog.Inspect(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := report.Topics[0].Damage; len(d) == 0 || len(d) > 3 || !strings.Contains(d[0].Detail, "this segment and all up to") {
			t.Errorf("segment %d: %d places are damaged; expected one for all that are missing", n, len(d))
		}
		l := open(t, c)
		if _, err := l.Topic(t.Context(), "t"); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "are not there") {
			t.Errorf("segment %d: %v; expected that it is too far away", n, err)
		}
		_ = l.Close()
	}
	if err := os.Remove(filepath.Join(c.Dir, "log/topics/t/control")); err != nil { // a cache while nobody lives
		t.Fatal(err)
	}
	l = open(t, c)
	again, err := l.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(again.Close(), l.Close()) }()
	if recs, _, err := again.Read(t.Context(), 0, 0, nil, nil); err != nil || len(recs) != 1 {
		t.Errorf("%d records, %v; expected the one that is there", len(recs), err)
	}
}
