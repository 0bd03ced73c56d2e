package benchkit

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/measure"
)

// keyLoad produces numbered records of so many keys at a steady rate, and judges how they are delivered.
type keyLoad struct {
	rf    *ringfence.Client
	topic string
	keys  int
	rate  int // records a second

	sent      atomic.Int64
	delivered atomic.Int64 // for the first time
	doubled   atomic.Int64
	broken    atomic.Int64 // that passed one of their key
	rests     atomic.Bool  // nothing is produced for now
	longest   atomic.Int64 // ns from its produce to its delivery, of a record since take

	mu   sync.Mutex
	next []uint64 // by key: the number that comes next
}

func newKeyLoad(rf *ringfence.Client, topic string, keys, rate int) *keyLoad {
	return &keyLoad{rf: rf, topic: topic, keys: keys, rate: rate, next: make([]uint64, keys)}
}

// produce produces until ctx ends, and returns when all is stored.
func (l *keyLoad) produce(ctx context.Context) error {
	w, n := measure.NewWindow(4096), 0
	return measure.Try(func(*measure.Script) {
		w.Pace(ctx, time.Second/time.Duration(l.rate), math.MaxInt, func(int) {
			if l.rests.Load() {
				w.Leave(nil)
				return
			}
			value := binary.LittleEndian.AppendUint64(make([]byte, 0, 100), uint64(n/l.keys))
			value = binary.LittleEndian.AppendUint64(value, uint64(time.Now().UnixNano()))
			m := ringfence.Message{Key: fmt.Append(nil, n%l.keys), Value: value[:100]}
			n++
			l.rf.ProduceAsync(context.WithoutCancel(ctx), l.topic, m, nil, func(_ ringfence.Position, err error) {
				if err == nil {
					l.sent.Add(1)
				}
				w.Leave(err)
			})
		})
	})
}

// take judges a record of the load.
func (l *keyLoad) take(key, value []byte) error {
	var k int
	if _, err := fmt.Sscan(string(key), &k); err != nil || k < 0 || k >= l.keys || len(value) != 100 {
		return fmt.Errorf("a record of key %.20q with %d bytes is none of the load", key, len(value))
	}
	n := binary.LittleEndian.Uint64(value)
	took := time.Now().UnixNano() - int64(binary.LittleEndian.Uint64(value[8:]))
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < l.next[k] {
		l.doubled.Add(1)
		return nil
	}
	if n > l.next[k] {
		l.broken.Add(int64(n - l.next[k]))
	}
	l.next[k] = n + 1
	l.delivered.Add(1)
	l.longest.Store(max(l.longest.Load(), took))
	return nil
}

// worst lets the load go on for a while, and says how long a record of it waited at most since this was asked
// the last time, in ms.
func (l *keyLoad) worst(ctx context.Context, d time.Duration) float64 {
	measure.Pass(ctx, d)
	return float64(l.longest.Swap(0)) / 1e6
}

// settled waits until all that was produced is delivered, for as long as some of it is.
func (l *keyLoad) settled(ctx context.Context) {
	over := func() bool { return l.delivered.Load()+l.broken.Load() >= l.sent.Load() }
	for !over() {
		before := l.delivered.Load()
		wait(ctx, time.Minute, "the next record of those produced to be delivered", func() bool { return over() || l.delivered.Load() > before })
	}
}

// wrong counts the records that were lost, or passed another one of their key, when the load has settled. What was
// passed counts as one delivered twice if it comes later, and as lost if it does not.
func (l *keyLoad) wrong() int64 { return max(l.broken.Load(), l.sent.Load()-l.delivered.Load()) }
