package dispatch

import (
	"context"
	"fmt"
	"sort"
	"sync"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// fakeLog is one partition in memory, with gaps where the test wants them.
type fakeLog struct {
	mu     sync.Mutex
	recs   []commitlog.Record
	first  int64
	next   int64
	sealed bool
	grown  chan struct{}
	fault  func(offset int64) error // asked before each read
	reads  int
}

func newFakeLog() *fakeLog { return &fakeLog{grown: make(chan struct{})} }

// filled has n records whose keys repeat after keys of them; 0: no keys.
func filled(n, keys int) *fakeLog {
	l := newFakeLog()
	l.fill(n, keys)
	return l
}

// add appends a record gap offsets after the last one.
func (l *fakeLog) add(key, value string, gap int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := commitlog.Record{Offset: l.next + gap, Timestamp: 1000 + int64(len(l.recs)), Value: []byte(value)}
	if key != "" {
		r.Key = []byte(key)
	}
	l.recs = append(l.recs, r)
	l.next = r.Offset + 1
	close(l.grown)
	l.grown = make(chan struct{})
	return r.Offset
}

// fill appends n records whose keys repeat after keys of them; 0: no keys.
func (l *fakeLog) fill(n, keys int) {
	for i := range n {
		key := ""
		if keys > 0 {
			key = fmt.Sprintf("k%d", i%keys)
		}
		l.add(key, fmt.Sprintf("v%d", i), 0)
	}
}

func (l *fakeLog) seal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = true
	close(l.grown)
	l.grown = make(chan struct{})
}

func (l *fakeLog) trim(first int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first = first
}

func (l *fakeLog) Read(ctx context.Context, offset int64, dst []commitlog.Record, maxBytes int) ([]commitlog.Record, int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return dst, offset, err
	}
	l.reads++
	if l.fault != nil {
		if err := l.fault(offset); err != nil {
			return dst, offset, err
		}
	}
	if offset < l.first || offset > l.next {
		return dst, offset, &commitlog.OutOfRangeError{Topic: "fake", Offset: offset, First: l.first, End: l.next}
	}
	i := sort.Search(len(l.recs), func(i int) bool { return l.recs[i].Offset >= offset })
	for got := 0; i < len(l.recs) && (got == 0 || got < maxBytes); i++ {
		dst = append(dst, l.recs[i])
		got += commitlog.RecordBytes(&l.recs[i])
		offset = l.recs[i].Offset + 1
	}
	return dst, offset, nil
}

func (l *fakeLog) Wait(ctx context.Context, offset int64) error {
	for {
		l.mu.Lock()
		ok, grown := l.sealed || l.next > offset, l.grown
		l.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *fakeLog) Bounds(context.Context) (commitlog.Bounds, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return commitlog.Bounds{First: l.first, Next: l.next, Sealed: l.sealed}, nil
}

func (l *fakeLog) input() []Input { return []Input{{Source: l}} }

// unboundedLog does not know its bounds at first.
type unboundedLog struct {
	*fakeLog
	fails int
}

func (l *unboundedLog) Bounds(ctx context.Context) (commitlog.Bounds, error) {
	if l.fails > 0 {
		l.fails--
		return commitlog.Bounds{}, fault.Unavailable
	}
	return l.fakeLog.Bounds(ctx)
}
