package filelog

import (
	"os"
	"strings"
	"testing"
	"time"

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
		"empty":          func([]byte) []byte { return nil },
		"cut short":      func(b []byte) []byte { return b[:len(b)-3] },
		"a flipped bit":  func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
		"an absurd name": func(b []byte) []byte { b[4], b[7] = 0xff, 0xff; return b },
		"zeros":          func(b []byte) []byte { clear(b); return b },
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
