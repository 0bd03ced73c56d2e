package core

import (
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkParked says what a parked record takes in the memory of its owner: each of a key of its own, ten
// and a hundred of a key. Each failed with the same answer.
func BenchmarkParked(b *testing.B) {
	for _, each := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("%d of a key", each), func(b *testing.B) {
			const records = 1_000_000
			var held int64
			for b.Loop() {
				before := inUse()
				s := parked(records, records/each)
				held = inUse() - before
				runtime.KeepAlive(s)
			}
			b.ReportMetric(float64(held)/records, "B/record")
		})
	}
}

// parked is an owner that has read so many parked records of so many keys.
func parked(records, keys int) *State {
	by := Tenure{Epoch: 1, Run: 1}
	s := New(Config{Set: "s"})
	s.Read(0, &Record{Kind: Fence, By: by, Seq: 1})
	for i := range records {
		r, err := Decode(Encode(&Record{
			Kind: Park, At: 1, By: by, Seq: uint64(i + 2), ID: ID{Origin: Origin{Partition: 3, Offset: int64(i)}},
			Timestamp: 1, Attempts: 2, Due: 1000, Since: 1, Answer: "503 Service Unavailable", Key: []byte{},
		}, []byte{}), fmt.Appendf(nil, "key-%d", i%keys))
		if err != nil {
			panic(err)
		}
		s.Read(int64(i+1), r)
	}
	own := Tenure{Epoch: 2, Run: 1}
	s.cfg.Tenure = own
	s.Start()
	s.Effects()
	s.Read(int64(records+1), &Record{Kind: Fence, By: own, Seq: 1})
	s.Effects()
	return s
}

// inUse is the memory that this process uses, in bytes.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
