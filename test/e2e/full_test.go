package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/testdisk"
)

// A directory whose disk fills up under a group at work, and gets room again.
func TestAFullDiskIsAPauseForProducersAndNothingElse(t *testing.T) {
	t.Parallel()
	disk, ok := testdisk.Small(t, "8m")
	if !ok {
		t.Log("this user may not mount a file system; the log and the registry have tests that play it")
		return
	}
	dir := disk.Dir
	open := func() *ringfence.Client {
		rf := openDir(t, ringfence.Config{Dir: dir})
		return rf
	}
	rf := open()
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 4}))
	ballast := filepath.Join(dir, "ballast-of-others")
	must(t, os.WriteFile(ballast, make([]byte, 2<<20), 0o600))
	got := newRecorder()
	a := consume(t, rf, "orders", "g", got.handle, ringfence.ConsumeOptions{Member: "a", CommitInterval: 5 * time.Millisecond})
	stored := produceUntilFull(t, rf)
	disk.Fill(t)
	got.waitFor(t, stored)
	late := open() // another process, and another member, on the full disk
	b := consume(t, late, "orders", "g", got.handle, ringfence.ConsumeOptions{Member: "b"})
	eventually(t, "the second member to get its share", func() bool {
		info, err := late.Admin().DescribeGroup(t.Context(), "g")
		return err == nil && len(info.Members) == 2 && info.Members[1].Units == 2
	})
	if err := late.EnsureTopic(t.Context(), "more", ringfence.TopicConfig{Partitions: 4}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a new topic on a full disk: %v; expected no space", err)
	}
	must(t, os.Remove(ballast))
	for i := range 100 {
		m := ringfence.Message{Key: []byte("after"), Value: fmt.Append(nil, i)}
		if _, err := late.Produce(t.Context(), "orders", m); err != nil {
			t.Fatalf("with room again: %v", err)
		}
	}
	got.waitFor(t, stored+100)
	a.leave(t)
	b.leave(t)
	if got.count() != stored+100 {
		t.Errorf("%d messages were handled; %d were stored", got.count(), stored+100)
	}
}

// produceUntilFull returns how many messages were stored before the disk was full.
func produceUntilFull(t *testing.T, rf *ringfence.Client) int {
	t.Helper()
	for i := 0; ; i++ {
		m := ringfence.Message{Key: fmt.Appendf(nil, "k%d", i%16), Value: make([]byte, 2000)}
		_, err := rf.Produce(t.Context(), "orders", m)
		if err == nil {
			continue
		}
		if !errors.Is(err, ringfence.ErrNotAppended) || !strings.Contains(err.Error(), "no space is left") {
			t.Fatalf("produce on a full disk: %v; expected ErrNotAppended for want of space", err)
		}
		return i
	}
}
