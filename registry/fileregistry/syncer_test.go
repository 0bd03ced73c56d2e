package fileregistry

import (
	"log/slog"
	"os"
	"testing"

	"github.com/ringfence/ringfence/internal/vfs"
)

// Another process begins a generation and writes to it, behind any look at a shared word that this one
// takes while it syncs. What is called durable then is what was on the disk: a sync of the file of one
// generation says nothing of the next.
func TestASyncCoversNothingOfTheNextGeneration(t *testing.T) {
	t.Parallel()
	const mine, base, next = 100, 200, 300 // where this one wrote, where the next generation begins and ends
	for at := 1; ; at++ {
		ctl := &control{
			written: aWord(base), gen: aWord(1), synced: aWord(0), sealed: aWord(0), check: aWord(0),
			syncs: [2]word{aWord(0), aWord(0)},
		}
		onDisk, looks := uint64(0), 0
		another := func() {
			if looks++; looks != at {
				return
			}
			onDisk = base // by the snapshot
			ctl.gen.Uint64.Store(2)
			ctl.written.Uint64.Store(next)
		}
		for _, w := range []*word{&ctl.written, &ctl.gen, &ctl.synced, &ctl.sealed} {
			w.hook.AfterLoad = another
		}
		fsys := vfs.Inject(vfs.NewMem(1), func(op *vfs.Op) error {
			if gen := ctl.gen.Uint64.Load(); op.Kind == vfs.OpSync && op.Name == journalName(gen%2) {
				onDisk = ctl.written.Uint64.Load()
			}
			return nil
		})
		s := &syncer{ctl: ctl, log: slog.New(slog.DiscardHandler), open: func(i uint64) (vfs.File, error) {
			return fsys.OpenFile(journalName(i), os.O_RDWR|os.O_CREATE, 0o600)
		}}
		if err := s.sync(mine); err != nil {
			t.Fatal(err)
		}
		must(t, s.close())
		if looks < at {
			t.Logf("another process came in behind each of %d looks", looks)
			break
		}
		if said := ctl.synced.Uint64.Load(); said > onDisk || onDisk < mine {
			t.Errorf("behind look %d another process went on: %d bytes are called durable, and the disk has %d", at, said, onDisk)
		}
	}
}

// The error of a sync may have been told to another process, which seals the generation while this one's sync
// is under way and succeeds: that proves nothing, and the content is written again.
func TestASyncOfAGenerationSealedMeanwhileIsNotPublished(t *testing.T) {
	t.Parallel()
	const mine = 100
	ctl := &control{
		written: aWord(mine), gen: aWord(1), synced: aWord(0), sealed: aWord(0), check: aWord(0),
		syncs: [2]word{aWord(0), aWord(0)},
	}
	fsys := vfs.Inject(vfs.NewMem(1), func(op *vfs.Op) error {
		if op.Kind == vfs.OpSync && op.Name == journalName(1) {
			ctl.seal(1)
		}
		return nil
	})
	redone := 0
	s := &syncer{ctl: ctl, log: slog.New(slog.DiscardHandler), open: func(i uint64) (vfs.File, error) {
		return fsys.OpenFile(journalName(i), os.O_RDWR|os.O_CREATE, 0o600)
	}, redo: func() error {
		if redone++; ctl.synced.Load() != 0 {
			t.Errorf("%d bytes of a sealed generation are called durable", ctl.synced.Load())
		}
		ctl.gen.Store(2)
		ctl.raiseSynced(mine)
		return nil
	}}
	if err := s.sync(mine); err != nil {
		t.Fatal(err)
	}
	must(t, s.close())
	if redone != 1 {
		t.Errorf("the content was written again %d times; expected once", redone)
	}
}
