package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/vfs"
)

// A topic of one name is made, filled and deleted again and again. Wherever that is cut, the name
// is afterwards that of one whole life, or of none: never of one whose deletion was acknowledged,
// never of a mixture.

const (
	lives      = 3
	eachLife   = 3 // records
	afterwards = 7 // the life that a test begins
	bystanders = "of a bystander"
)

// lifeOf is the shape of a topic that tells which life it is.
func lifeOf(n int) commitlog.TopicConfig {
	return commitlog.TopicConfig{Name: topicName, Partitions: 1, RetentionBytes: int64(n+1) << 30}
}

// biography is what the maker of the lives was told until now.
type biography struct {
	life              int // the one that it is at
	creating, created bool
	deleting, deleted bool
	acked             int // appends of this life
}

type lifeMaker struct {
	mu  sync.Mutex
	bio biography
}

func (m *lifeMaker) note(f func(*biography)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.bio)
}

func (m *lifeMaker) snapshot() biography {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bio
}

func value(life, n int) string { return fmt.Sprintf("life %d record %d", life, n) }

// run lives the lives. meet is called in the middle of the first.
func (m *lifeMaker) run(ctx context.Context, fsys vfs.FS, meet func() error) error {
	l, err := openOn(ctx, fsys)
	if err != nil {
		return err
	}
	defer l.Close()
	for n := range lives {
		m.note(func(b *biography) { *b = biography{life: n, creating: true} })
		if err := l.CreateTopic(ctx, lifeOf(n)); err != nil {
			return err
		}
		m.note(func(b *biography) { b.created = true })
		t, err := l.Topic(ctx, topicName)
		if err != nil {
			return err
		}
		for i := range eachLife {
			if err := appendValue(ctx, t, value(n, i)); err != nil {
				return err
			}
			m.note(func(b *biography) { b.acked++ })
			if n == 0 && i == 0 {
				if err := meet(); err != nil {
					return err
				}
			}
		}
		m.note(func(b *biography) { b.deleting = true })
		if err := l.DeleteTopic(ctx, topicName); err != nil {
			return err
		}
		m.note(func(b *biography) { b.deleted = true })
	}
	return nil
}

func appendValue(ctx context.Context, t *commitlog.Topic, v string) error {
	_, err := t.Append(ctx, 0, []commitlog.Record{{Value: []byte(v)}}, nil)
	return err
}

func valuesOf(ctx context.Context, t *commitlog.Topic) ([]string, error) {
	b, err := t.Bounds(ctx, 0)
	if err != nil {
		return nil, err
	}
	var out []string
	for at := b.First; at < b.Next; {
		var recs []commitlog.Record
		if recs, at, err = t.Read(ctx, 0, at, nil, nil); err != nil {
			return nil, err
		}
		for _, r := range recs {
			out = append(out, string(r.Value))
		}
	}
	return out, nil
}

// verify looks at what a cut left. until is what the maker was told before it, and from then on.
func (b biography) verify(ctx context.Context, fsys vfs.FS, until biography) error {
	l, err := openOn(ctx, fsys)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := b.verifyLife(ctx, l, until); err != nil {
		return err
	}
	if err := l.DeleteTopic(ctx, topicName); err != nil && !errors.Is(err, commitlog.ErrNotFound) {
		return fmt.Errorf("delete what is there: %w", err)
	}
	if err := l.CreateTopic(ctx, lifeOf(afterwards)); err != nil {
		return fmt.Errorf("make it again: %w", err)
	}
	t, err := l.Topic(ctx, topicName)
	if err != nil {
		return err
	}
	if err := appendValue(ctx, t, "new"); err != nil {
		return err
	}
	got, err := valuesOf(ctx, t)
	if err != nil || !slices.Equal(got, []string{"new"}) {
		return fmt.Errorf("the topic that was made again holds %q, %w", got, err)
	}
	return verifySwept(ctx, fsys)
}

func (b biography) verifyLife(ctx context.Context, l *commitlog.Log, until biography) error {
	list, err := l.Topics(ctx)
	if err != nil {
		return err
	}
	t, err := l.Topic(ctx, topicName)
	if errors.Is(err, commitlog.ErrNotFound) {
		if len(list) != 0 {
			return fmt.Errorf("a topic is listed and can't be opened: %+v", list)
		}
		if b.created && !until.deleting && until.life == b.life {
			return fmt.Errorf("life %d is gone, and nobody deleted it", b.life)
		}
		return nil
	}
	if err != nil {
		return err
	}
	is := t.Config()
	if len(list) != 1 || list[0] != is {
		return fmt.Errorf("%+v is listed, %+v can be opened", list, is)
	}
	for _, may := range []biography{b, until} {
		if is != lifeOf(may.life) || !may.creating || b.deleted && b.life == may.life {
			continue
		}
		least := 0
		if b.life == may.life {
			least = b.acked
		}
		got, err := valuesOf(ctx, t)
		if err != nil {
			return err
		}
		got = slices.DeleteFunc(got, func(v string) bool { return v == bystanders })
		for i, v := range got {
			if v != value(may.life, i) {
				return fmt.Errorf("life %d holds %q", may.life, got)
			}
		}
		if len(got) < least || len(got) > eachLife {
			return fmt.Errorf("life %d holds %d records, %d were acknowledged", may.life, len(got), least)
		}
		return nil
	}
	return fmt.Errorf("%+v is there; it was cut in %+v", is, b)
}

// verifySwept opens the log once more and looks for what was left of topics.
func verifySwept(ctx context.Context, fsys vfs.FS) error {
	l, err := openOn(ctx, fsys)
	if err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	left, err := fsys.ReadDir("log/tmp")
	if err != nil || len(left) > 0 {
		return fmt.Errorf("left in tmp: %v, %w", left, err)
	}
	return nil
}

// The machine loses its power, or its file system is mounted again, before each operation.
func TestPowerLossInEveryLifeOfAName(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	type photo struct {
		disk          *vfs.Mem
		before, until biography
		where         string
	}
	var photos []photo
	var mu sync.Mutex
	for seed := range uint64(soak(2, 40)) {
		mem := vfs.NewMem(seed)
		maker := &lifeMaker{}
		fsys := vfs.Inject(mem, func(op *vfs.Op) error {
			if !op.Kind.Changes() {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			for i, crash := range []func() *vfs.Mem{mem.Crash, mem.CrashSameBoot} {
				before := maker.snapshot()
				disk := crash()
				photos = append(photos, photo{disk, before, maker.snapshot(), fmt.Sprintf("crash %d before operation %d (%s %s)", i, op.Count, op.Kind, op.Name)})
			}
			return nil
		})
		must(t, maker.run(ctx, fsys, func() error { return nil }))
	}
	t.Logf("%d images", len(photos))
	each(t, photos, func(p photo) error {
		if err := p.before.verify(ctx, p.disk, p.until); err != nil {
			return fmt.Errorf("%s: %w", p.where, err)
		}
		return nil
	})
}

// A process is killed at each of its operations, while another has the first life open: that one
// goes on with the life that it opened, and with no other.
func TestAProcessKilledInEveryLifeOfAName(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	var count atomic.Int64 // several goroutines of the process do operations
	counted := vfs.Inject(vfs.NewMem(1), func(*vfs.Op) error { count.Add(1); return nil })
	must(t, (&lifeMaker{}).run(ctx, counted, func() error { return nil }))
	all := count.Load()
	var at []int64
	for n := int64(1); n <= all; n++ {
		at = append(at, n)
	}
	each(t, at, func(n int64) error {
		if err := killInALife(ctx, n); err != nil {
			return fmt.Errorf("killed at operation %d of %d: %w", n, all, err)
		}
		return nil
	})
}

func killInALife(ctx context.Context, at int64) error {
	mem := vfs.NewMem(uint64(at))
	maker := &lifeMaker{}
	var told biography
	h := newHalt(at, func(*vfs.Op) {
		told = maker.snapshot()
		mem.Kill()
	})
	h.told = newHistory()
	bystander, err := openOn(ctx, mem.Process())
	if err != nil {
		return err
	}
	defer bystander.Close()
	var old *commitlog.Topic
	done := make(chan error, 1)
	go func() {
		done <- maker.run(ctx, vfs.Inject(mem, h.hook), func() (err error) {
			old, err = bystander.Topic(ctx, topicName)
			return err
		})
	}()
	select {
	case <-h.reached:
	case err := <-done: // it had fewer operations: its goroutines took turns in another way
		return err
	}
	defer func() { close(h.release); <-done }()
	met := told.life > 0 || told.acked > 1 // the first append was answered, and meet came back
	if met {
		if err := told.verifyOpened(ctx, old, at%2 == 0); err != nil {
			return fmt.Errorf("the handle of a bystander: %w", err)
		}
	}
	if err := told.verify(ctx, mem.Process(), told); err != nil {
		return err
	}
	if met {
		if err := verifyDeleted(ctx, old); err != nil {
			return fmt.Errorf("the handle of a bystander: %w", err)
		}
	}
	l, err := openOn(ctx, mem.Process())
	if err != nil {
		return err
	}
	defer l.Close()
	t, err := l.Topic(ctx, topicName)
	if err != nil {
		return err
	}
	if got, err := valuesOf(ctx, t); err != nil || !slices.Equal(got, []string{"new"}) {
		return fmt.Errorf("in the end the topic holds %q, %w", got, err)
	}
	return nil
}

// verifyOpened looks through a handle of the first life. It may still be used when that lives.
func (b biography) verifyOpened(ctx context.Context, t *commitlog.Topic, use bool) error {
	got, err := valuesOf(ctx, t)
	if err == nil && use {
		err = appendValue(ctx, t, bystanders)
	}
	over := b.life > 0 || b.deleted
	switch {
	case errors.Is(err, commitlog.ErrNotFound) && (over || b.deleting):
		return nil
	case err == nil && !over && len(got) >= b.acked:
		return nil
	}
	return fmt.Errorf("in %+v it holds %q, %w", b, got, err)
}

// verifyDeleted makes all calls on a handle of a deleted topic.
func verifyDeleted(ctx context.Context, t *commitlog.Topic) error {
	_, read := valuesOf(ctx, t)
	_, at := t.OffsetAt(ctx, 0, 1)
	_, seal := t.Seal(ctx)
	for name, err := range map[string]error{
		"bounds": read, "offset": at, "seal": seal,
		"append": appendValue(ctx, t, "late"),
		"trim":   t.Trim(ctx, 0, 1),
		"hold":   t.Hold(ctx, "g", []int64{0}),
		"wait":   t.Wait(ctx, 0, 1000),
	} {
		if !errors.Is(err, commitlog.ErrNotFound) {
			return fmt.Errorf("%s of a deleted topic: %w", name, err)
		}
	}
	return nil
}
