package filelog

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// A retention hold is a file with two slots that are written in turn, in place: that takes no space, so that a
// group goes on when the disk is full. A hold that is new renames a file of the same size which stands ready, its
// room. Several of those are kept for the groups that begin on a full disk, and are made again when there is space.
//
// Each slot alone keeps what the group needs, whichever a crash or a rotten bit takes: a hold that is new, or lower
// than before, is written to both, and is on stable storage before the call returns. One that only rises is not
// synced, as the older one keeps more.

const (
	holdPrefix = "hold-"
	roomPrefix = "room-" // of files that stand ready
	rooms      = 4
	slotHeader = 16
	// maxHoldName bounds the name of a hold in bytes.
	maxHoldName = 1 << 10
)

// slotSize is the size of one of the two slots of a hold.
func slotSize(partitions int) int64 {
	return (slotHeader + 12 + maxHoldName + 8*int64(partitions) + segment.Block - 1) &^ (segment.Block - 1)
}

func holdName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%s%x", holdPrefix, sum[:12])
}

func roomName(i int) string { return fmt.Sprintf("%s%d", roomPrefix, i) }

// slot is one version of a hold.
type slot struct {
	seq     uint64 // the higher one counts
	name    string
	offsets []int64
}

// encode is a slot's bytes, without the zeros behind them: crc32c, length of what follows the header, seq, offsets.
func (v *slot) encode() []byte {
	le, body := binary.LittleEndian, encodeOffsets(v.name, v.offsets)
	b := le.AppendUint32(make([]byte, 4, slotHeader+len(body)), uint32(len(body)))
	b = append(le.AppendUint64(b, v.seq), body...)
	le.PutUint32(b, crc32.Checksum(b[4:], crcTable))
	return b
}

func decodeSlot(b []byte, partitions int) (slot, error) {
	le := binary.LittleEndian
	bad := fmt.Errorf("a damaged slot of a hold: %w", fault.Corrupt)
	if len(b) < slotHeader || int64(le.Uint32(b[4:])) > int64(len(b)-slotHeader) {
		return slot{}, bad
	}
	b = b[:slotHeader+int(le.Uint32(b[4:]))]
	if crc32.Checksum(b[4:], crcTable) != le.Uint32(b) {
		return slot{}, bad
	}
	body := b[slotHeader:]
	offsets, err := decodeOffsets(body, partitions)
	if err != nil {
		return slot{}, bad
	}
	n := le.Uint32(body[4:])
	return slot{le.Uint64(b[8:]), string(body[8 : 8+n]), offsets}, nil
}

// decodeHold is the newer slot of a hold, and its place; fault.Corrupt when neither is sound.
func decodeHold(b []byte, partitions int) (newest slot, at int, err error) {
	size := int(slotSize(partitions))
	err = fmt.Errorf("a damaged hold of %d bytes: %w", len(b), fault.Corrupt)
	if len(b) != 2*size {
		return slot{}, 0, err
	}
	for i := range 2 {
		if v, bad := decodeSlot(b[i*size:(i+1)*size], partitions); bad == nil && (err != nil || v.seq > newest.seq) {
			newest, at, err = v, i, nil
		}
	}
	return newest, at, err
}

// hold stores what a group still needs. A hold that keeps nothing goes.
func (s *store) hold(name string, offsets []int64) error {
	if len(name) > maxHoldName {
		return fmt.Errorf("a hold with a name of %d bytes; expected %d at most: %w", len(name), maxHoldName, fault.Invalid)
	}
	err := s.withMeta(func() error {
		if !slices.ContainsFunc(offsets, func(o int64) bool { return o >= 0 }) {
			if err := s.fs.Remove(holdName(name)); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}
		err := s.writeHold(slot{name: name, offsets: offsets})
		_ = s.makeRooms() // there may be no space for them: then the next hold tries again
		return err
	})
	if err != nil {
		return explain(fmt.Sprintf("hold of %q on topic %q", name, s.name), err)
	}
	return nil
}

// writeHold writes a slot of the hold's file. The caller has the meta lock.
func (s *store) writeHold(next slot) error {
	file := holdName(next.name)
	b, err := readFile(s.fs, file)
	if errors.Is(err, fs.ErrNotExist) {
		return s.newHold(file, next)
	}
	if err != nil {
		return err
	}
	now, at, err := decodeHold(b, len(next.offsets))
	switch {
	case err != nil:
		return s.newHold(file, next)
	case slices.Equal(now.offsets, next.offsets):
		return nil
	}
	next.seq = now.seq + 1
	f, err := s.fs.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if lower(next.offsets, now.offsets) {
		err = next.writeBoth(f, 1-at)
	} else {
		err = next.write(f, 1-at)
	}
	return errors.Join(err, f.Close())
}

// lower tells whether a hold keeps a record that an older one does not.
func lower(next, now []int64) bool {
	for p, o := range next {
		if o >= 0 && (now[p] < 0 || o < now[p]) {
			return true
		}
	}
	return false
}

func (v *slot) write(f vfs.File, at int) error {
	_, err := f.WriteAt(v.encode(), int64(at)*slotSize(len(v.offsets)))
	return err
}

// writeBoth writes both slots durably, one after the other: one of them is sound at any time.
func (v *slot) writeBoth(f vfs.File, first int) error {
	for _, at := range []int{first, 1 - first} {
		if err := errors.Join(v.write(f, at), f.SyncData()); err != nil {
			return err
		}
		v.seq++
	}
	return nil
}

// newHold gives a file that stands ready the name of a hold, in place of a damaged one as well.
func (s *store) newHold(file string, first slot) error {
	i := rooms - 1
	for i > 0 && !s.ready(i) {
		i--
	}
	if !s.ready(i) {
		if err := s.makeRoom(i); err != nil {
			return err
		}
	}
	room := roomName(i)
	f, err := s.fs.OpenFile(room, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(first.writeBoth(f, 0), f.Close()); err != nil {
		return err
	}
	if err := s.fs.Rename(room, file); err != nil {
		return err
	}
	return s.fs.SyncDir(".")
}

// ready tells whether a room is there; what a crash left of one may be shorter.
func (s *store) ready(i int) bool {
	info, err := s.fs.Stat(roomName(i))
	return err == nil && info.Size() == 2*slotSize(s.meta.Config.Partitions)
}

// makeRooms makes the files that stand ready for new holds. The caller has the meta lock.
func (s *store) makeRooms() error {
	for i := range rooms {
		if s.ready(i) {
			continue
		}
		if err := s.makeRoom(i); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom writes one full of zeros: that takes its blocks.
func (s *store) makeRoom(i int) error { return makeRoom(s.fs, i, s.meta.Config.Partitions) }

func makeRoom(dir vfs.FS, i, partitions int) error {
	err := writeUnsynced(dir, roomName(i), make([]byte, 2*slotSize(partitions)))
	if err != nil {
		err = errors.Join(err, dir.Remove(roomName(i)))
	}
	return err
}

// holds is the lowest offset that any hold needs, by partition; -1 where there is none. A hold
// that can't be read holds everything. The caller has the meta lock.
func (s *store) holds() ([]int64, error) {
	lowest := make([]int64, s.meta.Config.Partitions)
	for p := range lowest {
		lowest[p] = -1
	}
	err := s.eachHold(func(file string, v slot, bad error) error {
		if bad != nil {
			if s.unread.say(file, time.Now()) {
				s.log.Warn("a hold is damaged; retention keeps everything until it is replaced", "file", file, "error", bad)
			}
			v.offsets = make([]int64, len(lowest))
		}
		for p, o := range v.offsets {
			if o >= 0 && (lowest[p] < 0 || o < lowest[p]) {
				lowest[p] = o
			}
		}
		return nil
	})
	return lowest, err
}

// eachHold visits the holds; bad is why one is damaged. The caller has the meta lock.
func (s *store) eachHold(visit func(file string, v slot, bad error) error) error {
	entries, err := s.fs.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), holdPrefix) {
			continue
		}
		b, err := readFile(s.fs, e.Name())
		if err == nil {
			v, _, bad := decodeHold(b, s.meta.Config.Partitions)
			err = visit(e.Name(), v, bad)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// namedHolds are the holds as they are stored. One that is damaged may be that of any group: the error comes beside
// the others.
func (s *store) namedHolds() (map[string][]int64, error) {
	holds := map[string][]int64{}
	var damaged error
	err := s.withMeta(func() error {
		return s.eachHold(func(file string, v slot, bad error) error {
			if bad != nil {
				damaged = errors.Join(damaged, fmt.Errorf("hold %s, of which the group is not known: %w (its group replaces it; for a group that is gone, remove the file)", s.fs.Path(file), bad))
			} else {
				holds[v.name] = v.offsets
			}
			return nil
		})
	})
	if err = errors.Join(err, damaged); err != nil {
		err = fmt.Errorf("topic %q: %w", s.name, err)
	}
	return holds, err
}
