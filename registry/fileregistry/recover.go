package fileregistry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// openFiles opens the generations that there are.
func (j *journal) openFiles() error {
	for i := range uint64(2) {
		if err := j.openFile(i, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// recover makes the words of the control file true again from the bytes of the journal, while
// no other process lives.
//
// Transactions that were never durable may be gone, and their revisions are given out again; pieces
// of them may lie behind the end. So nothing is ever appended to a generation that was recovered:
// its successor has another nonce. When all is known to be durable, and no session is left over,
// the first writer makes the successor; a process that only reads leaves everything as it
// is. Otherwise it is made now. No session outlives all processes.
func (j *journal) recover() error {
	h := j.ctl.hint()
	if h == (hint{}) {
		j.ctl.synced.Store(0) // not ours; what follows raises it
		j.ctl.gen.Store(0)
	}
	j.ctl.magic.Store(controlMagic)
	j.ctl.holder.Store(0)
	j.ctl.rotating.Store(0)
	j.ctl.sealed.Store(0)
	j.ctl.syncs[0].Store(0)
	j.ctl.syncs[1].Store(0)
	found, err := j.reload(h)
	if err != nil {
		return err
	}
	if !found {
		return j.rotate(0)
	}
	hdr := &j.hdr
	if h == (hint{j.applied, hdr.gen}) && len(j.st.sessions) == 0 {
		ok, err := j.nothingNext()
		if err != nil {
			return err
		}
		if !ok {
			j.ctl.rotating.Store(hdr.gen + 1)
		}
		return j.seal()
	}
	j.ctl.rotating.Store(hdr.gen)
	err = j.renew()
	if full(err) {
		return j.postpone(hdr.gen)
	}
	return err
}

// reload brings the view to what the journal holds, by its bytes and the hint. It writes nothing. false: no
// generation was ever in force.
func (j *journal) reload(h hint) (found bool, _ error) {
	hdr, found, err := j.newest()
	if err != nil {
		return false, err
	}
	if h.gen > hdr.gen {
		return false, j.missing(h.gen)
	}
	j.hdr, j.st = header{}, newState()
	if !found {
		if h.synced > 0 {
			return false, j.missing(1)
		}
		return false, nil
	}
	if j.st, err = j.loadSnapshot(&hdr); err != nil {
		return false, err
	}
	j.hdr, j.applied, j.rev = hdr, hdr.base, hdr.rev
	return true, j.replay(h.synced)
}

// postpone leaves the recovery to the first process that finds room: where the disk copies on write, a full
// one has none for any write, not even for one in place. Until then nothing is known to be durable,
// so that reads and writes are unavailable; sessions are ended by the keepers.
func (j *journal) postpone(gen uint64) error {
	j.ctl.gen.Store(gen)
	if err := j.seal(); err != nil {
		return err
	}
	j.st = nil // what was changed in it is not written
	var ignored change
	return j.refresh(&ignored)
}

// seal takes the recovered generation for the one in force, which is not written to.
func (j *journal) seal() (err error) {
	j.ctl.written.Store(j.applied)
	j.ctl.sealed.Store(j.hdr.gen)
	j.capacity, err = j.sizeOf(j.file(j.hdr.gen), j.hdr.gen)
	return err
}

// renew ends all sessions and starts the next generation.
func (j *journal) renew() error {
	if err := j.agreeHeaders(); err != nil {
		return err
	}
	var ignored change
	for id := range j.st.sessions {
		j.rev++
		j.st.apply(&op{kind: opEnd, key: id}, "", &ignored)
	}
	return j.rotate(0)
}

// newest finds the generation that is in force.
func (j *journal) newest() (hdr header, found bool, _ error) {
	for i := range uint64(2) {
		f := j.files[i]
		if f == nil {
			continue
		}
		h, err := readHeader(f)
		switch {
		case errors.Is(err, errNoHeader):
			continue // its first generation was never finished
		case err != nil:
			return header{}, false, fmt.Errorf("registry journal %s: %w", j.path(i, 0), err)
		}
		if !found || h.gen > hdr.gen {
			hdr, found = h, true
		}
	}
	switch {
	case found && hdr.gen > 1 && j.files[(hdr.gen+1)%2] == nil:
		return header{}, false, j.missing(hdr.gen + 1)
	case !found && j.files[0] != nil && j.files[1] == nil: // which is made, durably, before the other
		return header{}, false, j.missing(1)
	}
	return hdr, found, nil
}

func (j *journal) missing(gen uint64) error {
	return fmt.Errorf("registry journal %s is missing, or not the one that it was; restore the directory from a backup, or remove %s to start an empty registry, without any topic, group or subscription: %w",
		j.fs.Path(journalName(gen%2)), j.fs.Path("."), fault.Corrupt)
}

// replay applies the frames up to the first that is not valid. When something behind it, or the
// control file, proves that it was durable once, it is damage and not the end.
func (j *journal) replay(evidence uint64) error {
	t := tail{f: j.file(j.hdr.gen), start: j.hdr.dataStart(), base: j.hdr.base, nonce: j.hdr.nonce}
	var err error
	if t.size, err = j.sizeOf(t.f, j.hdr.gen); err != nil {
		return err
	}
	t.size = max(t.size-t.start, 0)
	var ch change
	for {
		fr, err := t.frame(j.applied)
		if errors.Is(err, errTorn) {
			break
		}
		if err == nil {
			if err = j.applyFrame(&fr, &ch); err != nil {
				err = fmt.Errorf("%w; restore the directory from a backup: %w", err, fault.Corrupt)
			}
		}
		if err != nil {
			return fmt.Errorf("registry journal %s: %w", j.path(j.hdr.gen, j.hdr.offset(j.applied)), err)
		}
		ch = change{}
	}
	later, err := t.evidence(j.applied)
	if err != nil {
		return fmt.Errorf("registry journal %s: %w", j.path(j.hdr.gen, t.start), err)
	}
	if evidence = max(evidence, later); evidence > j.applied {
		return fmt.Errorf("registry journal %s: a damaged frame, followed by %d bytes that were durable; restore the directory from a backup, or remove %s to start an empty registry, without any topic, group or subscription: %w",
			j.path(j.hdr.gen, j.hdr.offset(j.applied)), evidence-j.applied, j.fs.Path("."), fault.Corrupt)
	}
	return nil
}

// tail reads what lies behind a snapshot, a window at a time.
type tail struct {
	f     vfs.File
	start int64 // in the file
	size  int64
	base  uint64 // LSN of the first byte
	nonce uint32

	window []byte
	at     int64 // of the window, from start
}

const tailWindow = 1 << 18

// bytes is what there is from off on: at least n bytes, unless the tail ends before.
func (t *tail) bytes(off int64, n int) ([]byte, error) {
	if n = int(min(int64(n), t.size-off)); n <= 0 {
		return nil, nil
	}
	if off < t.at || off+int64(n) > t.at+int64(len(t.window)) {
		size := int(min(int64(max(n, tailWindow)), t.size-off))
		if cap(t.window) < size {
			t.window = make([]byte, size)
		}
		t.window, t.at = t.window[:size], off
		if got, err := t.f.ReadAt(t.window, t.start+off); err != nil && got < size {
			t.window = nil
			return nil, readError(err)
		}
	}
	return t.window[off-t.at:], nil
}

// frame is the one of that LSN; errTorn when there is none.
func (t *tail) frame(lsn uint64) (frame, error) {
	off := int64(lsn - t.base)
	b, err := t.bytes(off, frameHeader)
	if err != nil {
		return frame{}, err
	}
	size, err := frameSize(b, lsn)
	if err != nil {
		return frame{}, err
	}
	if b, err = t.bytes(off, size); err != nil {
		return frame{}, err
	}
	return parseFrame(b, t.nonce, lsn)
}

// evidence looks behind an invalid frame for valid ones, and returns the highest LSN that one of
// them says was durable.
func (t *tail) evidence(lsn uint64) (most uint64, _ error) {
	for lsn += 8; ; {
		b, err := t.bytes(int64(lsn-t.base), frameHeader)
		if err != nil || len(b) < frameHeader {
			return most, err
		}
		n := 0
		for n+frameHeader <= len(b) && binary.LittleEndian.Uint64(b[n+8:]) != lsn+uint64(n) {
			n += 8
		}
		lsn += uint64(n)
		if n+frameHeader > len(b) {
			continue
		}
		fr, err := t.frame(lsn)
		switch {
		case errors.Is(err, errTorn):
			lsn += 8
		case err != nil:
			return most, err
		default:
			most = max(most, fr.synced)
			lsn += uint64(fr.size)
		}
	}
}
