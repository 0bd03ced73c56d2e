package filelog

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// holdFile is the only hold of a topic.
func holdFile(t *testing.T, s *store) string {
	t.Helper()
	entries, err := s.fs.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "hold-") {
			found = append(found, e.Name())
		}
	}
	if len(found) != 1 {
		t.Fatalf("the holds are %v; expected one", found)
	}
	return found[0]
}

// Nobody knows what a hold that can't be read was there to keep.
func TestADamagedHoldKeepsEverythingUntilItIsReplaced(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(b []byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"cut short": func(b []byte) []byte { return b[:len(b)-3] },
		"flipped bits": func(b []byte) []byte {
			b[20] ^= 4
			b[len(b)/2+20] ^= 4
			return b
		},
		"an absurd length": func(b []byte) []byte {
			for _, slot := range [][]byte{b, b[len(b)/2:]} {
				slot[4], slot[7] = 0xff, 0xff
			}
			return b
		},
		"zeros": func(b []byte) []byte { clear(b); return b },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := aged(t, vfs.NewMem(1))
			for n := s.page.Low() + 1; n <= s.page.Written().Number(); n++ {
				stamp(t, s, n, s.now().before(2*time.Hour, 0))
			}
			if err := s.hold("group", []int64{50, 50}); err != nil { // all of it was processed
				t.Fatal(err)
			}
			file := holdFile(t, s)
			b, err := readFile(s.fs, file)
			if err != nil {
				t.Fatal(err)
			}
			f, err := s.fs.OpenFile(file, os.O_RDWR|os.O_TRUNC, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(damage(b), 0); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			low := s.page.Low()
			if err := s.retain(); err != nil || s.page.Low() != low {
				t.Errorf("retention gives %v and drops segments %d to %d beside a hold that can't be read", err, low, s.page.Low())
			}
			if s.unread.say(file, time.Now()) {
				t.Error("at the next look people would be told again that it is damaged")
			}
			if err := s.hold("group", []int64{50, 50}); err != nil {
				t.Fatal(err)
			}
			if err := s.retain(); err != nil || s.page.Low() == low {
				t.Errorf("with the hold replaced retention gives %v and drops nothing", err)
			}
		})
	}
}

// What a hold needs stays, the first record of a topic among it, and nothing more than that.
func TestAHoldKeepsWhatItNeeds(t *testing.T) {
	t.Parallel()
	for name, holds := range map[string][][]int64{
		"the first record of a partition": {{0, -1}},
		"that of the other partition":     {{-1, 0}},
		"the lowest of several":           {{50, 50}, {0, 50}, {1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := aged(t, vfs.NewMem(1))
			for n := s.page.Low() + 1; n <= s.page.Written().Number(); n++ {
				stamp(t, s, n, s.now().before(2*time.Hour, 0))
			}
			if err := s.hold("group", []int64{-1, -1}); err != nil { // the one of aged
				t.Fatal(err)
			}
			for i, offsets := range holds {
				if err := s.hold(string(rune('a'+i)), offsets); err != nil {
					t.Fatal(err)
				}
			}
			low := s.page.Low()
			if err := s.retain(); err != nil || s.page.Low() != low {
				t.Errorf("retention gives %v and drops segments %d to %d, which %v hold", err, low, s.page.Low(), holds)
			}
			for i := range holds {
				if err := s.hold(string(rune('a'+i)), []int64{-1, -1}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.retain(); err != nil || s.page.Low() == low {
				t.Errorf("with nothing held retention gives %v and drops nothing", err)
			}
		})
	}
}

// A group that begins on a full disk holds what it needs, and moves its hold: the room for that is kept.
func TestANewHoldIsStoredOnAFullDisk(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	s := aged(t, mem)
	if err := s.hold("group", []int64{-1, -1}); err != nil { // the one of aged
		t.Fatal(err)
	}
	for round := range 2 {
		mem.SetCapacity(1)
		want := map[string][]int64{}
		for i := range rooms {
			name := fmt.Sprint(round, i)
			for _, offsets := range [][]int64{{5, 5}, {2, -1}, {9, -1}} {
				if err := s.hold(name, offsets); err != nil {
					t.Fatalf("round %d, hold %d at %v on a full disk: %v", round, i, offsets, err)
				}
				want[name] = offsets
			}
		}
		if err := s.hold("one too many", []int64{0, 0}); !errors.Is(err, fault.Unavailable) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("without room: %v; expected ErrUnavailable, no space left", err)
		}
		if got, err := s.namedHolds(); err != nil || !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("the holds are %v, %v; expected %v", got, err, want)
		}
		mem.SetCapacity(0) // there is space again: the next hold makes rooms, too
		for name := range want {
			if err := s.hold(name, []int64{-1, -1}); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(s.hold("x", []int64{1, 1}), s.hold("x", []int64{-1, -1})); err != nil {
			t.Fatal(err)
		}
	}
}

// What one slot of a hold has lost, the other one keeps: never less than the group needs.
func TestOneSoundSlotOfAHoldKeepsEnough(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before []int64 // in turn
		want   int64   // at most
	}{
		"new":    {[]int64{7}, 7},
		"risen":  {[]int64{7, 9, 30}, 30},
		"lower":  {[]int64{7, 30, 5}, 5},
		"lowest": {[]int64{7, 30, 0, 0}, 0},
	} {
		for lost := range 2 {
			s := aged(t, vfs.NewMem(1))
			if err := s.hold("group", []int64{-1, -1}); err != nil {
				t.Fatal(err)
			}
			for _, o := range c.before {
				if err := s.hold("g", []int64{o, -1}); err != nil {
					t.Fatal(err)
				}
			}
			f, err := s.fs.OpenFile(holdFile(t, s), os.O_RDWR, 0)
			if err == nil {
				_, err = f.WriteAt([]byte{1, 2, 3, 4}, int64(lost)*slotSize(2))
			}
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			got, err := s.holds()
			if err != nil || got[0] < 0 || got[0] > c.want {
				t.Errorf("%s: without slot %d the hold is %v, %v; expected %d or lower", name, lost, got, err, c.want)
			}
		}
	}
}

// A hold that can't be read hides no other.
func TestHoldsAreReadBesideADamagedOne(t *testing.T) {
	t.Parallel()
	s := aged(t, vfs.NewMem(1))
	if err := errors.Join(s.hold("group", []int64{-1, -1}), s.hold("g", []int64{7, -1})); err != nil {
		t.Fatal(err)
	}
	f, err := s.fs.OpenFile(holdFile(t, s), os.O_RDWR, 0)
	for slot := range int64(2) {
		if err == nil {
			_, err = f.WriteAt([]byte{1, 2, 3, 4}, slot*slotSize(2))
		}
	}
	if err := errors.Join(err, f.Close(), s.hold("h", []int64{9, 9})); err != nil {
		t.Fatal(err)
	}
	if got, err := s.namedHolds(); !errors.Is(err, fault.Corrupt) || len(got) != 1 || !slices.Equal(got["h"], []int64{9, 9}) {
		t.Errorf("the holds are %v, %v; expected that of h, and ErrCorrupt", got, err)
	}
	if err := s.hold("g", []int64{8, -1}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.namedHolds(); err != nil || len(got) != 2 {
		t.Errorf("once its group has replaced it, the holds are %v, %v", got, err)
	}
}

// A hold that is new or lower than before is there after a power loss.
func TestAHoldThatIsNewOrLowerIsDurable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		mem := vfs.NewMem(seed)
		s := aged(t, mem)
		if err := s.hold("group", []int64{-1, -1}); err != nil {
			t.Fatal(err)
		}
		for _, o := range [][]int64{{20, -1}, {40, -1}, {50, -1}, {10, -1}, {20, 7}} { // at last in the other partition, too
			if err := s.hold("g", o); err != nil {
				t.Fatal(err)
			}
			after := storeOf(t, mem.Crash(), Config{SegmentBytes: MinSegmentBytes})
			if got, err := after.holds(); err != nil || got[0] < 0 || got[0] > o[0] || o[1] >= 0 && (got[1] < 0 || got[1] > o[1]) {
				t.Errorf("seed %d: held from %v, and after a power loss from %v, %v", seed, o, got, err)
			}
		}
	}
}
