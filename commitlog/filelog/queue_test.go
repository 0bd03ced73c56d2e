package filelog

import (
	"context"
	"errors"
	"testing"

	"github.com/ringfence/ringfence/commitlog/driver"
)

func enqueue(t *testing.T, in *appendQueue, partition, size int) {
	t.Helper()
	req := driver.AppendRequest{Partition: partition, Records: []driver.Record{{Value: make([]byte, size)}}}
	if err := in.add(t.Context(), &req, 1, func(int64, error) {}); err != nil {
		t.Fatal(err)
	}
}

// A large batch is taken in parts, in the order of its frames, and later appends join its end.
func TestTakeLeavesWhatIsTooMuchForOneCommit(t *testing.T) {
	t.Parallel()
	in := newAppendQueue(2, 4<<20)
	if !in.begin() {
		t.Fatal("the turn was not free")
	}
	for range 50 {
		enqueue(t, in, 0, 40<<10)
	}
	enqueue(t, in, 1, 10)
	first := in.take()
	if first.bytes > takeBytes || first.bytes < takeBytes-(64<<10) {
		t.Fatalf("took %d bytes of 50 × 40 KiB; expected nearly %d", first.bytes, takeBytes)
	}
	if left := in.count.Load(); left != 51-int64(len(first.frames)) {
		t.Fatalf("%d appends are left and %d frames were taken, of 51", left, len(first.frames))
	}
	frames := len(first.frames)
	in.giveBack(first)
	enqueue(t, in, 1, 10) // joins the frame of the other one
	rest := in.take()
	if len(rest.frames) != 51-frames || rest.frames[len(rest.frames)-1].frame.Count != 2 {
		t.Fatalf("then took %d frames, the last with %d records; expected %d and 2",
			len(rest.frames), rest.frames[len(rest.frames)-1].frame.Count, 51-frames)
	}
	in.giveBack(rest)
	if b := in.take(); b != nil || in.count.Load() != 0 {
		t.Fatalf("then took %v with %d appends pending; expected nothing", b, in.count.Load())
	}
}

func TestAnAppendToAFullBufferWaitsForTheNextTake(t *testing.T) {
	t.Parallel()
	in := newAppendQueue(1, 1000)
	enqueue(t, in, 0, 900)
	req := driver.AppendRequest{Records: []driver.Record{{Value: make([]byte, 900)}}}
	room, err := in.tryAdd(&req, 1, func(int64, error) {})
	if room == nil || err != nil {
		t.Fatalf("a full buffer took an append: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := in.add(ctx, &req, 1, func(int64, error) {}); !errors.Is(err, context.Canceled) {
		t.Fatalf("an append to a full buffer with a context that ended: %v", err)
	}
	in.giveBack(in.take())
	select {
	case <-room:
	default:
		t.Fatal("taking did not make room")
	}
}
