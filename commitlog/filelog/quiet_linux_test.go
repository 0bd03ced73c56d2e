package filelog_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/filelog"
)

// A daemon has hundreds of topics of which each was read up to its end once, when it started.
func TestAQuietTopicHasNoPagesOfItsSegments(t *testing.T) {
	t.Parallel()
	c := filelog.Config{Dir: t.TempDir()}
	topic := openTopic(t, open(t, c), "t", 1)
	if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: make([]byte, 100<<10)}}, nil); err != nil {
		t.Fatal(err)
	}
	if recs, _, err := topic.Read(t.Context(), 0, 0, nil, nil); err != nil || len(recs) != 1 {
		t.Fatal(recs, err)
	}
	if residentSegments(t, c.Dir) == 0 {
		t.Fatal("a segment that was read has no pages in this process: the test looks in the wrong place")
	}
	over := make(chan error, 1)
	go func() { over <- topic.Wait(t.Context(), 0, 1) }() // as whoever has read all of it does
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for late := time.After(60 * time.Second); residentSegments(t, c.Dir) > 0; {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("%d KiB of the segments are in this process a minute after the last was read; expected none", residentSegments(t, c.Dir))
		}
	}
	if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("x")}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-over; err != nil {
		t.Fatal(err)
	}
}

// residentSegments is how many KiB of the segments below a directory this process has in memory.
func residentSegments(t *testing.T, dir string) (kib int) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ours := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if strings.Contains(line, "/") {
			ours = strings.Contains(line, dir) && strings.HasSuffix(line, ".seg")
		}
		if rest, ok := strings.CutPrefix(line, "Rss:"); ok && ours {
			n := 0
			if _, err := fmt.Sscan(rest, &n); err != nil {
				t.Fatal(err)
			}
			kib += n
			ours = false
		}
	}
	return kib
}
