package fileregistry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/vfs"
)

// View is the content of a registry for those that only look: it takes part in nothing and writes nothing, except
// that it holds the locks of life.go. While processes have the registry open it holds alive.lock as they do, so that
// the page stays true, and follows the journal as they do. Else it holds open.lock, so that no process opens the
// registry until Close, and reads what recovery would read.
type View struct {
	fs    vfs.FS
	owned io.Closer // fs, when it is the view's
	dir   vfs.Dir
	lock  vfs.File // open.lock or alive.lock
	alone bool
	j     *journal
}

// Look opens a view of the registry in a data directory. fault.NotFound: there is none. fault.Corrupt, with the
// place: it is damaged.
func Look(ctx context.Context, cfg Config) (_ *View, err error) {
	v := &View{fs: cfg.FS}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("file registry: %w", err), v.Close())
		}
	}()
	if v.fs == nil {
		osfs, err := vfs.OpenOS(cfg.Dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("data directory %s does not exist: %w", cfg.Dir, fault.NotFound)
		}
		if err != nil {
			return nil, refusedIn(cfg.Dir, err)
		}
		v.fs, v.owned = osfs, osfs
	}
	if v.dir, err = v.fs.OpenDir(dirName); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: expected a registry here, found none: %w", v.fs.Path(dirName), fault.NotFound)
	}
	if err == nil {
		err = v.checkFormat()
	}
	if err == nil {
		err = v.takePart(ctx)
	}
	if err == nil {
		err = v.Refresh()
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (v *View) checkFormat() error {
	b, err := v.read("FORMAT", 2*len(formatText))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: expected a registry here, found none: %w", v.dir.Path("FORMAT"), fault.NotFound)
	}
	if err != nil {
		return err
	}
	if string(b) != formatText {
		return refuseFormat(v.dir.Path("FORMAT"), string(b))
	}
	return nil
}

// read is the start of a file, at most n bytes.
func (v *View) read(name string, n int) ([]byte, error) {
	f, err := v.dir.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, n)
	n, err = f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// takePart takes the locks of an opener, in its order.
func (v *View) takePart(ctx context.Context) error {
	gate, err := v.dir.OpenFile(openLock, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) { // a copy of a registry, which no process has opened
		v.alone = true
		return v.openJournal()
	}
	if err != nil {
		return err
	}
	v.lock = gate
	if err := (&store{dir: v.dir, log: slog.New(slog.DiscardHandler)}).await(ctx, gate); err != nil {
		return err
	}
	alive, err := v.dir.OpenFile(aliveLock, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		v.alone = true
		return v.openJournal()
	}
	if err != nil {
		return err
	}
	if v.alone, err = alive.TryLock(true); err == nil && !v.alone {
		err = v.beAlive(alive)
	} else {
		err = errors.Join(err, alive.Close()) // which open.lock stands for
	}
	if err != nil {
		return err
	}
	return v.openJournal()
}

// beAlive holds the shared lock in the place of that of opening: the page is true from then on.
func (v *View) beAlive(alive vfs.File) error {
	gate := v.lock
	v.lock = alive
	ok, err := alive.TryLock(false)
	if err == nil && !ok {
		err = fmt.Errorf("lock %s: another process locks it, which no process of Ringfence does now: %w", v.dir.Path(aliveLock), fault.Unavailable)
	}
	return errors.Join(err, gate.Close())
}

func (v *View) openJournal() error {
	ctl, err := v.page()
	if err != nil {
		return err
	}
	v.j = &journal{fs: v.dir, data: v.fs, ctl: ctl, looks: true}
	return v.j.openFiles()
}

// page is the control page: the shared one while it is true, else what is left of it.
func (v *View) page() (*control, error) {
	if v.alone {
		b := make([]byte, controlSize)
		left, err := v.read(controlName, controlSize)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		copy(b, left)
		return controlOf(memory(b), hook.Access{}), nil
	}
	f, err := v.dir.OpenFile(controlName, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping stays
	m, err := f.Map(controlSize, false)
	if err != nil {
		return nil, err
	}
	ctl := controlOf(m, hook.Access{})
	if ctl.magic.Load() != controlMagic {
		return nil, errors.Join(fmt.Errorf("%s is not that of the processes that have the registry open: %w", v.dir.Path(controlName), fault.Unavailable), m.Close())
	}
	return ctl, nil
}

// memory is a page that no other process has.
type memory []byte

func (m memory) Bytes() []byte { return m }
func (memory) Close() error    { return nil }

// Refresh brings the view up to what the registry holds now.
func (v *View) Refresh() error {
	if !v.alone {
		var ignored change
		return v.j.refresh(&ignored)
	}
	if v.j.st != nil {
		return nil // nothing can have changed
	}
	_, err := v.j.reload(v.j.ctl.hint())
	return err
}

// Close lets go of the registry.
func (v *View) Close() error {
	var errs []error
	if v.j != nil {
		errs = append(errs, closeAll(v.j.files[0], v.j.files[1]), v.j.ctl.m.Close())
	}
	if v.lock != nil {
		errs = append(errs, v.lock.Close())
	}
	if v.dir != nil {
		errs = append(errs, v.dir.Close())
	}
	if v.owned != nil {
		errs = append(errs, v.owned.Close())
	}
	return errors.Join(errs...)
}

// Report is what a registry holds.
type Report struct {
	Dir        string `json:"dir"`
	Generation uint64 `json:"generation"` // of its journal
	Revision   uint64 `json:"revision"`
	Entries    int    `json:"entries"`
	Sessions   int    `json:"sessions"`
	Bytes      int64  `json:"bytes"` // of the journal that count
}

// Report describes the view.
func (v *View) Report() Report {
	j := v.j
	r := Report{Dir: v.dir.Path("."), Generation: j.hdr.gen, Revision: j.rev, Sessions: len(j.st.sessions)}
	for range j.st.m.All() {
		r.Entries++
	}
	if j.hdr.gen > 0 {
		r.Bytes = j.hdr.offset(j.applied)
	}
	return r
}

// Entries are keys and values of all namespaces, the keys without their namespace.
func (v *View) Entries() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for e := range v.j.st.m.All() {
			_, key, _ := strings.Cut(e.Key, "\x00")
			if !yield(key, e.Value) {
				return
			}
		}
	}
}

// Files are those of a registry with the content of the view, by their names in the data directory. All versions
// are kept, and the next ones differ from all that were given out. The sessions end at its first opening.
func (v *View) Files() map[string][]byte {
	j := v.j
	snap := j.st.encode()
	hdr := header{gen: 1, base: j.applied, rev: j.rev, nonce: newNonce(j.hdr.nonce), snapLen: uint64(len(snap)), snapCRC: crc32.Checksum(snap, castagnoli)}
	var b bytes.Buffer
	b.Write(hdr.page())
	b.Write(snap)
	b.Write(make([]byte, hdr.dataStart()-int64(b.Len())))
	return map[string][]byte{
		path.Join(dirName, "FORMAT"): []byte(formatText), path.Join(dirName, openLock): nil, path.Join(dirName, aliveLock): nil,
		path.Join(dirName, journalName(0)): nil, path.Join(dirName, journalName(1)): b.Bytes(),
	}
}
