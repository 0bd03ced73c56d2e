package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"testing"
)

// A segment is cut at every byte of its header and its frames, and at some of the zeros behind them.
func TestATruncatedSegment(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	s := newSpecimen(ctx, t, 7, 20)
	for _, boot := range boots {
		t.Run(boot.name, func(t *testing.T) {
			t.Parallel()
			var sizes []int64
			for size := range s.size {
				near := size < 4 || size >= s.header-4 && size < s.used+20 || size > s.size-4
				step := soak(509, 17) // in zeros
				if size < s.header {
					step = soak(509, 1)
				}
				if near || size%int64(step) == 0 {
					sizes = append(sizes, size)
				}
			}
			each(t, sizes, func(size int64) error {
				mem, err := s.damaged(boot.reboot, segmentPath(1), func(b []byte) []byte { return b[:size] })
				if err == nil {
					err = s.inspect(ctx, mem, verdict{cutTail: boot.reboot})
				}
				if err != nil {
					return fmt.Errorf("cut at %d of %d: %w", size, s.used, err)
				}
				return nil
			})
		})
	}
}

// Every bit of a small segment is flipped, header and frames.
func TestAFlippedBitInASegment(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	s := newSpecimen(ctx, t, 7, 20)
	for _, boot := range boots {
		t.Run(boot.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(1, 3))
			var bits []int64
			for bit := range 8 * s.size {
				step := soak(2000, 50) // in zeros
				if at := bit / 8; at < 160 || at >= s.header && at < s.used {
					step = soak(8, 1)
				}
				if rng.IntN(step) == 0 {
					bits = append(bits, bit)
				}
			}
			each(t, bits, func(bit int64) error {
				mem, err := s.damaged(boot.reboot, segmentPath(1), flip(bit))
				if err == nil {
					err = s.inspect(ctx, mem, verdict{cutTail: boot.reboot})
				}
				if err != nil {
					return fmt.Errorf("bit %d of byte %d (frames %d to %d): %w", bit%8, bit/8, s.header, s.used, err)
				}
				return nil
			})
		})
	}
}

func flip(bit int64) func(b []byte) []byte {
	return func(b []byte) []byte {
		if bit/8 < int64(len(b)) {
			b[bit/8] ^= 1 << (bit % 8)
		}
		return b
	}
}

// A disk may give back a page of zeros, of noise, or of another place.
func TestAWrongPageInASegment(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	s := newSpecimen(ctx, t, 60, 1500) // several segments
	noise := make([]byte, 4096)
	rng := rand.New(rand.NewPCG(5, 5))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	earlier := load(t, s.mem, segmentPath(1))
	type wrong struct {
		segment, page int
		kind          string
		with          []byte
	}
	var list []wrong
	for number := 1; number <= 2; number++ {
		for page := range 18 {
			list = append(list, wrong{number, page, "zeros", make([]byte, 4096)}, wrong{number, page, "noise", noise},
				wrong{number, page, "the same page of an earlier segment", earlier[page*4096%len(earlier):][:min(4096, len(earlier)-page*4096%len(earlier))]})
		}
	}
	for _, boot := range boots {
		t.Run(boot.name, func(t *testing.T) {
			t.Parallel()
			each(t, list, func(w wrong) error {
				mem, err := s.damaged(boot.reboot, segmentPath(w.segment), func(b []byte) []byte {
					if w.page*4096 < len(b) {
						copy(b[w.page*4096:], w.with)
					}
					return b
				})
				if err == nil {
					err = s.inspect(ctx, mem, verdict{cutTail: boot.reboot && w.segment == 2})
				}
				if err != nil {
					return fmt.Errorf("page %d of segment %d is %s: %w", w.page, w.segment, w.kind, err)
				}
				return nil
			})
		})
	}
}

// The files around the segments: each is cut, emptied, flipped, replaced or missing.
func TestDamagedFilesBesideTheSegments(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	s := newSpecimen(ctx, t, 60, 1500)
	names := []string{"log/FORMAT"}
	entries, err := s.mem.ReadDir(topicPath)
	must(t, err)
	for _, e := range entries {
		if path.Ext(e.Name()) != ".seg" {
			names = append(names, topicPath+"/"+e.Name())
		}
	}
	type damage struct {
		name, what string
		f          func(b []byte) []byte
	}
	var list []damage
	for _, name := range names {
		size := len(load(t, s.mem, name))
		list = append(list, damage{name, "empty", func([]byte) []byte { return nil }},
			damage{name, "half", func(b []byte) []byte { return b[:len(b)/2] }},
			damage{name, "twice", func(b []byte) []byte { return append(b, b...) }},
			damage{name, "noise", func(b []byte) []byte {
				rng := rand.New(rand.NewPCG(9, uint64(len(b))))
				for i := range b {
					b[i] = byte(rng.Uint32())
				}
				return b
			}})
		for bit := int64(0); bit < int64(8*size); bit += 1 + int64(8*size/soak(60, 3000)) {
			list = append(list, damage{name, fmt.Sprintf("bit %d flipped", bit), flip(bit)})
		}
	}
	for _, boot := range boots {
		t.Run(boot.name, func(t *testing.T) {
			t.Parallel()
			each(t, list, func(d damage) error {
				mem, err := s.damaged(boot.reboot, d.name, d.f)
				if err == nil {
					// While the host runs the control page is as good as memory; only what is read is checked.
					page := path.Base(d.name) == "control" && !boot.reboot
					err = s.inspect(ctx, mem, verdict{cutTail: page, noAppends: page})
				}
				if err != nil {
					return fmt.Errorf("%s: %s: %w", d.name, d.what, err)
				}
				return nil
			})
		})
	}
}

func TestMissingFiles(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	s := newSpecimen(ctx, t, 60, 1500)
	entries, err := s.mem.ReadDir(topicPath)
	must(t, err)
	names := []string{"log/FORMAT", "log/lock", "log/tmp"}
	for _, e := range entries {
		names = append(names, topicPath+"/"+e.Name())
	}
	last := segmentPath(2)
	each(t, names, func(name string) error {
		mem := s.mem.Crash()
		if err := errors.Join(mem.RemoveAll(name), mem.SyncDir(path.Dir(name))); err != nil {
			return err
		}
		// The newest segments can go without a trace when the control page went back in time, too.
		seg := path.Ext(name) == ".seg"
		if err := s.inspect(ctx, mem, verdict{cutTail: seg && name >= last}); err != nil {
			return fmt.Errorf("without %s: %w", name, err)
		}
		return nil
	})
}
