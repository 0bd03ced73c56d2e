package segment_test

import (
	"reflect"
	"testing"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/segment"
)

func FuzzDecode(f *testing.F) {
	var fr segment.Frame
	f.Add(frame(&fr, 0, []driver.Record{{Key: []byte("k"), Value: []byte("v"), Headers: []driver.Header{{Name: "n", Value: []byte("w")}}}}), 1)
	f.Add(make([]byte, 100), 1000)
	f.Fuzz(func(t *testing.T, b []byte, count int) {
		if len(b) < segment.FrameHeader || count < 0 || count > 1<<16 {
			return
		}
		fr := segment.Frame{Count: count}
		recs, _, err := segment.Decode(b, &fr, segment.RecordsOptions{Budget: 1 << 30}, nil)
		if err == nil && len(recs) != count {
			t.Errorf("%d records of %d without an error", len(recs), count)
		}
	})
}

func FuzzHeaders(f *testing.F) {
	h := segment.Header{Number: 1, Bases: []int64{1, 2}, Producers: segment.AppendProducers(nil, producers())}
	b := segment.AppendHeader(nil, &h)
	f.Add(b)
	f.Add(h.Producers)
	f.Add(segment.BuildIndex(b, &h, h.Bases))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := segment.ParseHeader(b); err == nil && len(got.Bases) == 0 {
			t.Error("a sound header without partitions")
		}
		_, _ = segment.FindCopy(b)
		if p, err := segment.ParseProducers(b, 1000); err == nil {
			if again, err := segment.ParseProducers(segment.AppendProducers(nil, p), 1000); err != nil || !reflect.DeepEqual(p, again) {
				t.Errorf("%+v comes back as %+v, %v", p, again, err)
			}
		}
		if x, err := segment.ParseIndex(b, &h, int64(len(b))); err == nil {
			x.Search(0, 1)
		}
		w := segment.Walker{Data: b, Epoch: 1}
		for range len(b) + 1 {
			var fr segment.Frame
			if _, _, err := w.Next(int64(len(b)), &fr); err != nil {
				return
			}
		}
		t.Error("a walk does not end")
	})
}
