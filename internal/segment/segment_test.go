package segment_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/segment"
)

const epoch = 77

// frame makes a sealed frame for a place.
func frame(f *segment.Frame, off int64, recs []driver.Record) []byte {
	b := make([]byte, segment.FrameHeader)
	for i := range recs {
		b = segment.AppendRecord(b, &recs[i], f.Time, f.Time)
	}
	f.Kind, f.Count = segment.Records, len(recs)
	segment.SealFrame(b, f, epoch, off)
	return b
}

func genRecord(t *rapid.T) driver.Record {
	blob := rapid.SliceOfN(rapid.Byte(), 0, 300)
	r := driver.Record{Timestamp: rapid.Int64().Draw(t, "time"), Key: blob.Draw(t, "key"), Value: blob.Draw(t, "value")}
	if r.Timestamp == 0 {
		r.Timestamp = 1
	}
	if rapid.Bool().Draw(t, "nil key") {
		r.Key = nil
	}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		r.Headers = append(r.Headers, driver.Header{Name: rapid.String().Draw(t, "name"), Value: blob.Draw(t, "header")})
	}
	return r
}

func TestRecordsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(rapid.Custom(genRecord), 1, 20).Draw(t, "records")
		f := segment.Frame{Base: rapid.Int64Range(0, 1<<50).Draw(t, "base"), Time: rapid.Int64().Draw(t, "frame time")}
		b := frame(&f, 4096, in)
		var got segment.Frame
		if !segment.Open(b, epoch, 4096, &got) || !reflect.DeepEqual(got, f) {
			t.Fatalf("frame %+v; want %+v", got, f)
		}
		out, _, err := segment.Decode(b, &got, segment.RecordsOptions{Budget: 1 << 30}, nil)
		if err != nil || len(out) != len(in) {
			t.Fatalf("%d records, %v", len(out), err)
		}
		for i := range in {
			want := in[i]
			want.Offset = f.Base + int64(i)
			if !reflect.DeepEqual(out[i], want) {
				t.Fatalf("record %d is %+v; want %+v", i, out[i], want)
			}
		}
	})
}

func TestNoFlippedBitOfAFrameGoesUnnoticed(t *testing.T) {
	t.Parallel()
	f := segment.Frame{Partition: 3, Base: 9, Time: 1000}
	b := frame(&f, 8192, []driver.Record{{Key: []byte("k"), Value: []byte("some value")}})
	for bit := range 8 * len(b) {
		b[bit/8] ^= 1 << (bit % 8)
		var got segment.Frame
		if segment.Open(b, epoch, 8192, &got) {
			t.Fatalf("bit %d of byte %d was flipped and nobody noticed", bit%8, bit/8)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
}

func TestWalkerGoesOnBehindDamage(t *testing.T) {
	t.Parallel()
	data := make([]byte, segment.Block)
	var places []int64
	for i := range 5 {
		f := segment.Frame{Base: int64(i)}
		off := int64(len(data))
		places = append(places, off)
		data = append(data, frame(&f, off, []driver.Record{{Value: bytes.Repeat([]byte{1}, 50+i)}})...)
		data = append(data, make([]byte, segment.AlignUp(int64(len(data)))-int64(len(data)))...)
	}
	data[places[2]+5] ^= 0x40 // its length
	var bases []int64
	var damage []segment.Damage
	w := segment.Walker{Data: data, Epoch: epoch, Off: segment.Block}
	for {
		var f segment.Frame
		_, bad, err := w.Next(int64(len(data)), &f)
		if errors.Is(err, segment.ErrEnd) {
			break
		}
		if bad != nil {
			damage = append(damage, *bad)
		} else {
			bases = append(bases, f.Base)
		}
	}
	if !reflect.DeepEqual(bases, []int64{0, 1, 3, 4}) {
		t.Errorf("walked over %v", bases)
	}
	if len(damage) != 1 || damage[0].From != places[2] || damage[0].To != places[3] {
		t.Errorf("damage %+v; frames stand at %v", damage, places)
	}
}

// A frame that an earlier writer left behind the end is sound, and stands where the next one belongs.
// That it names another one before it is all that tells.
func TestFrameOfAnotherChainIsRefused(t *testing.T) {
	t.Parallel()
	const start = 5 // of the chain
	first := segment.Frame{Prev: start}
	data := append(make([]byte, segment.Block), frame(&first, segment.Block, []driver.Record{{Value: []byte("one")}})...)
	data = append(data, make([]byte, segment.AlignUp(int64(len(data)))-int64(len(data)))...)
	at := int64(len(data))
	for prev, sound := range map[uint32]bool{first.CRC: true, first.CRC + 1: false, 0: false} {
		second := segment.Frame{Prev: prev, Base: 1}
		data = append(data[:at], frame(&second, at, []driver.Record{{Value: []byte("two")}})...)
		for chain, begins := range map[uint32]bool{start: true, start + 1: false} {
			w := segment.Walker{Data: data, Epoch: epoch, Off: segment.Block, Full: true, Chain: chain}
			var f segment.Frame
			if _, bad, err := w.Next(int64(len(data)), &f); err != nil || (bad == nil) != begins {
				t.Errorf("the first frame, behind chain %d: %+v, %v", chain, bad, err)
			}
			if !begins {
				continue
			}
			if _, bad, err := w.Next(int64(len(data)), &f); err != nil || (bad == nil) != sound || bad != nil && bad.Named {
				t.Errorf("a frame that names %x before it, behind %x: %+v, %v", prev, first.CRC, bad, err)
			}
		}
	}
}

// Where damage stood, at least so many records may have been that no offset of theirs is given out again.
func TestNoBytesHoldMoreRecordsThanIsSaid(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 10, 1000, 100_000} {
		var f segment.Frame
		b := frame(&f, segment.Block, make([]driver.Record, n))
		if most := segment.MostRecords(int64(len(b)) - segment.FrameHeader); most < int64(n) {
			t.Errorf("%d records take %d bytes, of which it is said that they hold %d at most", n, len(b)-segment.FrameHeader, most)
		}
	}
	if most := segment.MostRecords(-1); most < 1 {
		t.Errorf("%d records at most in less than nothing; a place of damage is never counted as none", most)
	}
}

func TestHeaderRoundTripsAndItsCopyIsFound(t *testing.T) {
	t.Parallel()
	h := segment.Header{
		TopicID: 5, Number: 7, Size: 1 << 20, PrevEnd: 4096, Synced: segment.At(6, 8192), Created: 99, Salt: 3, Sealed: true,
		Boot: 11, Uptime: 12, Bases: make([]int64, 1000), Producers: segment.AppendProducers(nil, producers()),
	}
	h.Bases[999] = 12
	b := segment.AppendHeader(nil, &h)
	got, err := segment.ParseHeader(b)
	if err != nil || !reflect.DeepEqual(*got, h) {
		t.Fatalf("%+v, %v; want %+v", got, err, h)
	}
	if got, err = segment.FindCopy(append(make([]byte, 3*segment.Block), b...)); err != nil || !reflect.DeepEqual(*got, h) {
		t.Fatalf("the copy: %+v, %v", got, err)
	}
	b[200] ^= 1
	if _, err := segment.ParseHeader(b); !errors.Is(err, segment.ErrHeader) {
		t.Errorf("a damaged header: %v", err)
	}
}

func TestIndexFindsEveryFrame(t *testing.T) {
	t.Parallel()
	h := segment.Header{TopicID: 1, Number: 2, Bases: []int64{10, 20}}
	data := segment.AppendHeader(nil, &h)
	next := []int64{10, 20}
	want := map[[2]int64]int64{}
	for i := range 40 {
		p := i % 2
		f := segment.Frame{Partition: p, Base: next[p], Kind: segment.Records, Count: 3, MaxTime: int64(i)}
		b := make([]byte, segment.FrameHeader)
		off := int64(len(data))
		segment.SealFrame(b, &f, h.Epoch(), off)
		data = append(data, b...)
		for o := next[p]; o < next[p]+3; o++ {
			want[[2]int64{int64(p), o}] = off
		}
		next[p] += 3
	}
	b := segment.BuildIndex(data, &h, next)
	x, err := segment.ParseIndex(b, &h, int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for k, off := range want {
		if e := x.At(int(k[0]), x.Search(int(k[0]), k[1])); e.Off != off {
			t.Errorf("partition %d offset %d: frame at %d; want %d", k[0], k[1], e.Off, off)
		}
	}
	if x.MaxTime(0) != 38 || x.MaxTime(1) != 39 {
		t.Errorf("latest times %d and %d", x.MaxTime(0), x.MaxTime(1))
	}
	for i := range b {
		b[i] ^= 4
		if _, err := segment.ParseIndex(b, &h, int64(len(data))); !errors.Is(err, segment.ErrIndex) {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
		b[i] ^= 4
	}
}

// An index is that of one segment: not of another one, nor of an earlier start of the same one, which a
// crash took back and which ended at the same byte. And it does not name what the next header cut off.
func TestIndexBelongsToItsSegment(t *testing.T) {
	t.Parallel()
	h := segment.Header{TopicID: 1, Number: 2, Salt: 1, Bases: []int64{10}}
	data := segment.AppendHeader(nil, &h)
	for i := range 4 {
		f := segment.Frame{Base: 10 + int64(i), Kind: segment.Records, Count: 1}
		b := make([]byte, segment.FrameHeader)
		segment.SealFrame(b, &f, h.Epoch(), int64(len(data)))
		data = append(data, b...)
	}
	end := int64(len(data))
	b := segment.BuildIndex(data, &h, []int64{12})
	x, err := segment.ParseIndex(b, &h, end)
	if err != nil || x.Len(0) != 2 {
		t.Fatalf("%d frames, %v; 2 are in front of where the next segment begins", x.Len(0), err)
	}
	again := segment.Header{TopicID: 1, Number: 2, Salt: 2, Bases: []int64{10}}
	segment.AppendHeader(nil, &again)
	number, partitions := h, h
	number.Number, partitions.Bases = 3, []int64{10, 0}
	for what, other := range map[string]*segment.Header{"another start": &again, "another number": &number, "more partitions": &partitions} {
		if _, err := segment.ParseIndex(b, other, end); !errors.Is(err, segment.ErrIndex) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := segment.ParseIndex(b, &h, end+segment.Align); !errors.Is(err, segment.ErrIndex) {
		t.Errorf("another end: %v", err)
	}
}

// However the bytes in front of a frame look, it is found at its place.
func TestFindFindsAFrameBehindAnything(t *testing.T) {
	t.Parallel()
	for at := int64(0); at < 200; at += segment.Align {
		for junk := range byte(4) {
			data := bytes.Repeat([]byte{junk}, int(at)+300)
			b := make([]byte, segment.FrameHeader+20)
			segment.SealFrame(b, &segment.Frame{Kind: segment.Records, Count: 1}, 7, at)
			copy(data[at:], b)
			if got := segment.Find(data, 7, 0); got != at {
				t.Fatalf("behind %d bytes of %d a frame is found at %d", at, junk, got)
			}
			if got := segment.Find(data, 7, at+1); got != -1 {
				t.Fatalf("another frame is found at %d", got)
			}
		}
	}
}
