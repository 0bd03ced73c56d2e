package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

const topicPath = "log/topics/" + topicName

func segmentPath(n int) string { return fmt.Sprintf("%s/%016d.seg", topicPath, n) }

// specimen is a log at rest, whose files a test damages.
type specimen struct {
	mem    *vfs.Mem
	acked  [partitions]map[int64]string
	next   [partitions]int64
	header int64 // bytes of the first segment's header
	used   int64 // where its frames end
	size   int64
}

// newSpecimen makes a log of some small appends and closes it.
func newSpecimen(ctx context.Context, t *testing.T, appends, size int) *specimen {
	t.Helper()
	s := &specimen{mem: vfs.NewMem(1)}
	l, err := openOn(ctx, s.mem)
	must(t, err)
	topic := created(ctx, t, l)
	for p := range s.acked {
		s.acked[p] = map[int64]string{}
	}
	for i := range appends {
		p := i % partitions
		value := fmt.Sprintf("value %d %s", i, bytes.Repeat([]byte{byte('a' + i%26)}, size))
		first, err := topic.Append(ctx, p, []commitlog.Record{{Value: []byte(value)}}, &commitlog.AppendOptions{Producer: commitlog.Producer{ID: 1, Sequence: int64(i / partitions)}})
		must(t, err)
		s.acked[p][first] = value
		s.next[p] = first + 1
	}
	must(t, topic.Hold(ctx, "g", []int64{1, -1, 0}))
	must(t, l.Close())
	b := load(t, s.mem, segmentPath(1))
	h, err := segment.ParseHeader(b[:segment.HeaderSize(partitions)])
	must(t, err)
	s.header, s.size = h.Length, int64(len(b))
	var f segment.Frame
	for s.used = h.Length; segment.Peek(b, h.Epoch(), s.used, &f) == nil; {
		s.used += f.Size()
	}
	return s
}

func load(t testing.TB, mem vfs.FS, name string) []byte {
	t.Helper()
	f, err := mem.OpenFile(name, os.O_RDONLY, 0)
	must(t, err)
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return b
}

// change rewrites a file in place, durably.
func change(mem vfs.FS, name string, f func(b []byte) []byte) error {
	file, err := mem.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return err
	}
	b := make([]byte, size)
	if _, err := file.ReadAt(b, 0); err != nil && err != io.EOF {
		return err
	}
	b = f(b)
	if err := file.Truncate(int64(len(b))); err != nil {
		return err
	}
	if _, err := file.WriteAt(b, 0); err != nil {
		return err
	}
	return errors.Join(file.SyncData(), mem.SyncDir(path.Dir(name)))
}

// verdict is what a damaged log must still do.
type verdict struct {
	// cutTail: the last records may be missing without a word, because nothing on disk tells
	// any more that they were acked.
	cutTail bool
	// noAppends: what the damage hit is trusted while the host runs, so only reads are checked.
	noAppends bool
}

// inspect opens a damaged log and checks that what it says is true: each record that it returns
// is the one that was acked there, and each one that it does not return is accounted for by an
// error. A log that refuses to open with a clear error is accounted for as a whole.
func (s *specimen) inspect(ctx context.Context, mem *vfs.Mem, v verdict) error {
	l, err := openOn(ctx, mem)
	if err != nil {
		return plain(err)
	}
	defer l.Close()
	t, err := l.Topic(ctx, topicName)
	if err != nil {
		return plain(err)
	}
	for p := range partitions {
		if err := s.inspectPartition(ctx, t, p, v); err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
	}
	if v.noAppends {
		return nil
	}
	for p := range partitions {
		first, err := t.Append(ctx, p, []commitlog.Record{{Value: []byte("new")}}, nil)
		if errors.Is(err, commitlog.ErrCorrupt) {
			return nil // it says why it goes no further
		}
		if err != nil {
			return fmt.Errorf("append to partition %d: %w", p, err)
		}
		if _, used := s.acked[p][first]; used && !v.cutTail {
			return fmt.Errorf("an append to partition %d got offset %d, which was acked for another record", p, first)
		}
		recs, _, err := t.Read(ctx, p, first, nil, nil)
		if err != nil || len(recs) != 1 || string(recs[0].Value) != "new" {
			return fmt.Errorf("the append to partition %d at %d reads as %v, %w", p, first, recs, err)
		}
	}
	return nil
}

// plain passes errors that name a kind which tells a person what to do.
func plain(err error) error {
	if errors.Is(err, commitlog.ErrCorrupt) || errors.Is(err, commitlog.ErrInvalid) || errors.Is(err, commitlog.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("an error without a useful kind: %w", err)
}

func (s *specimen) inspectPartition(ctx context.Context, t *commitlog.Topic, p int, v verdict) error {
	b, err := t.Bounds(ctx, p)
	if err != nil {
		return plain(err)
	}
	got, excused := map[int64]bool{}, int64(-1)
	for at := b.First; at < b.Next; {
		recs, next, err := t.Read(ctx, p, at, nil, nil)
		for _, r := range recs {
			if want := s.acked[p][r.Offset]; want != string(r.Value) {
				return fmt.Errorf("offset %d holds %.30q; %.30q was acked", r.Offset, r.Value, want)
			}
			got[r.Offset] = true
		}
		var damage *commitlog.CorruptError
		switch {
		case errors.As(err, &damage):
			if damage.Resume <= at {
				excused = 1 << 62 // no way on: a person must look
				next = b.Next
				break
			}
			excused, next = damage.Resume, damage.Resume
			for o := damage.Offset; o < min(damage.Resume, s.next[p]); o++ {
				got[o] = true
			}
		case err != nil:
			if err := plain(err); err != nil {
				return err
			}
			return nil
		case next <= at && len(recs) == 0:
			return fmt.Errorf("a read from %d of [%d, %d) gets nowhere", at, b.First, b.Next)
		}
		at = next
	}
	missing := int64(-1)
	for o := range s.next[p] {
		switch {
		case got[o] || o < excused:
			if missing >= 0 {
				return fmt.Errorf("offset %d is missing without an error, and %d behind it is there", missing, o)
			}
		case missing < 0:
			missing = o
		}
	}
	if missing >= 0 && !v.cutTail {
		return fmt.Errorf("offset %d and what follows is missing without an error; the bounds are [%d, %d)", missing, b.First, b.Next)
	}
	return nil
}

// boots are the two ways to meet a damaged file: the host was restarted, or not.
var boots = []struct {
	name   string
	reboot bool
}{{"after a reboot", true}, {"in the same boot", false}}

// damaged gives a copy of the specimen with one file changed. A copy is a crash of a machine at
// rest: everything on it is synced but the control page, which may be of any age.
func (s *specimen) damaged(reboot bool, name string, f func(b []byte) []byte) (*vfs.Mem, error) {
	mem := s.mem.Crash()
	if !reboot {
		// Open once in this boot, so that the control page is trusted.
		l, err := openOn(context.Background(), mem)
		if err != nil {
			return nil, err
		}
		if _, err := l.Topic(context.Background(), topicName); err != nil {
			return nil, err
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	if err := change(mem, name, f); err != nil {
		return nil, err
	}
	if reboot {
		mem = mem.Crash()
	}
	return mem, nil
}
