package fileregistry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/ringfence/ringfence/internal/fault"
)

// attach loads the store: as it is when processes of this boot have used it, else by recovery.
// Under the lock.
func (j *journal) attach(boot string) error {
	for i := range uint64(2) {
		err := j.openFile(i, 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if j.ctl.current(boot) {
		if j.file(j.ctl.gen.Load()) == nil {
			return j.missing(j.ctl.gen.Load())
		}
		var ch change
		return j.refresh(&ch)
	}
	evidence := j.ctl.evidence()
	j.ctl.ready.Store(0)
	j.ctl.synced.Store(evidence) // it stays true, and recovery may be cut short
	j.ctl.failed.Store(0)
	j.ctl.rotating.Store(0)
	if err := j.recover(evidence); err != nil {
		return err
	}
	j.ctl.magic.Store(controlMagic)
	j.ctl.boot.Store(bootHash(boot))
	j.ctl.ready.Store(1)
	return nil
}

// recover reads what a power loss (or the first start) left, and starts a new generation with a
// new nonce on it: transactions that were never durable may be gone, and their revisions are
// given out again. No session survives a reboot.
func (j *journal) recover(evidence uint64) error {
	hdr, found, err := j.newest()
	if err != nil {
		return err
	}
	j.st = newState()
	if !found {
		if evidence > 0 {
			return j.missing(0)
		}
		j.hdr = header{}
		return j.rotate(0)
	}
	if j.st, err = j.loadSnapshot(&hdr); err != nil {
		return err
	}
	j.hdr, j.applied, j.rev = hdr, hdr.base, hdr.rev
	if err := j.replay(evidence); err != nil {
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
		b := make([]byte, headerSize)
		if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
			return header{}, false, err
		}
		if bytes.Equal(b, make([]byte, headerSize)) {
			continue // its first generation was never finished
		}
		h, err := decodeHeader(b)
		if err != nil {
			return header{}, false, fmt.Errorf("registry journal %s: %w; restore the directory from a backup: %w", j.place(i, 0), err, fault.Corrupt)
		}
		if !found || h.gen > hdr.gen {
			hdr, found = h, true
		}
	}
	if found && hdr.gen > 1 && j.files[(hdr.gen+1)%2] == nil {
		return header{}, false, j.missing(hdr.gen + 1)
	}
	return hdr, found, nil
}

func (j *journal) missing(gen uint64) error {
	return fmt.Errorf("registry journal %s is missing; restore the directory from a backup, or remove %s to start an empty registry: %w",
		j.fs.Path(j.dir+"/"+journalName(gen%2)), j.fs.Path(j.dir), fault.Corrupt)
}

// replay applies the frames up to the first that is not valid. When something behind it, or the
// control file, proves that it was durable once, it is damage and not the end.
func (j *journal) replay(evidence uint64) error {
	f := j.file(j.hdr.gen)
	size, err := f.Size()
	if err != nil {
		return err
	}
	start := j.hdr.dataStart()
	tail := make([]byte, max(size-start, 0))
	if n, err := f.ReadAt(tail, start); err != nil && n < len(tail) {
		return fmt.Errorf("registry journal %s: %w", j.place(j.hdr.gen, start), err)
	}
	var ch change
	for {
		at := j.applied - j.hdr.base
		fr, err := parseFrame(tail[at:], j.hdr.nonce, j.applied)
		if err != nil {
			evidence = max(evidence, laterEvidence(tail[at:], j.hdr.nonce, j.applied))
			break
		}
		if err := j.applyFrame(&fr, &ch); err != nil {
			return fmt.Errorf("registry journal %s: %w: %w", j.place(j.hdr.gen, start+int64(at)), err, fault.Corrupt)
		}
		ch = change{}
	}
	if evidence > j.applied {
		off := j.hdr.offset(j.applied)
		return fmt.Errorf("registry journal %s: a damaged frame, followed by %d bytes that were durable; restore the directory from a backup, or remove %s to give them up: %w",
			j.place(j.hdr.gen, off), evidence-j.applied, j.fs.Path(j.dir), fault.Corrupt)
	}
	return nil
}

// laterEvidence looks behind an invalid frame for valid ones, and returns the highest LSN that
// one of them says was durable.
func laterEvidence(b []byte, nonce uint32, lsn uint64) uint64 {
	var most uint64
	for at := 8; at+frameHeader <= len(b); at += 8 {
		if fr, err := parseFrame(b[at:], nonce, lsn+uint64(at)); err == nil {
			most = max(most, fr.synced)
			at += fr.size - 8
		}
	}
	return most
}
