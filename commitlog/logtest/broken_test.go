package logtest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/logtest"
	"github.com/ringfence/ringfence/commitlog/memlog"
)

// broken is a way to get the contract wrong, on top of a log that gets it right. Each is caught
// by a named test of the suite.
type broken struct {
	name  string
	catch string // the test that must fail
	wrap  func(driver.Topic) driver.Topic
}

var brokenLogs = []broken{
	{"acks the wrong offset", "Append/ReturnsTheOffsetThatReadsGive", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, append: func(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
			t.Append(ctx, req, func(first int64, err error) { done(first+1, err) })
		}}
	}},
	{"loses the last record of a batch", "Append/ReturnsTheOffsetThatReadsGive", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, append: func(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
			less := *req
			less.Records = req.Records[:max(1, len(req.Records)-1)]
			t.Append(ctx, &less, done)
		}}
	}},
	{"tears batches apart", "Append/BatchesAreAtomicAndAdjacent", tear()},
	{"reorders what one goroutine sends", "Append/BatchesOfOneGoroutineKeepTheirOrder", reorder},
	{"answers twice", "Append/BatchesOfOneGoroutineKeepTheirOrder", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, append: func(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
			t.Append(ctx, req, func(first int64, err error) { done(first, err); done(first, err) })
		}}
	}},
	{"forgets the timestamp", "Append/KeepsEveryField", changed(func(r *driver.Record) { r.Timestamp = 7 })},
	{"makes a missing key an empty one", "Append/KeepsEveryField", changed(func(r *driver.Record) { r.Key = append([]byte{}, r.Key...) })},
	{"drops repeated headers", "Append/KeepsEveryField", changed(func(r *driver.Record) { r.Headers = r.Headers[:min(1, len(r.Headers))] })},
	{"stores duplicates", "Producer/ARepeatedSequenceIsStoredOnce", producer(func(p *driver.Producer) { p.ID = 0 })},
	{"does not fence", "Producer/AHigherEpochFencesTheLower", producer(func(p *driver.Producer) { p.Epoch = 9 })},
	{"fences in one partition", "Producer/AHigherEpochFencesInAllPartitions", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, append: func(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
			apart := *req
			apart.Producer.ID += uint64(req.Partition)
			t.Append(ctx, &apart, done)
		}}
	}},
	{"fences by what it stores", "Producer/ADuplicateOfAHigherEpochFences", fenceByStored()},
	{"forgets producers in silence", "Producer/IsNeverForgottenInSilence", forget()},
	{"refuses duplicates after the seal", "Producer/ADuplicateIsAckedAfterTheSeal", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, append: func(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
			if b, err := t.Bounds(ctx, 0); err == nil && b.Sealed {
				done(0, commitlog.ErrSealed)
				return
			}
			t.Append(ctx, req, done)
		}}
	}},
	{"seals nothing", "Seal/RefusesLaterAppends", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, seal: func(ctx context.Context) ([]int64, error) {
			ends := make([]int64, t.Config().Partitions)
			for p := range ends {
				b, err := t.Bounds(ctx, p)
				if err != nil {
					return nil, err
				}
				ends[p] = b.Next
			}
			return ends, nil
		}}
	}},
	{"returns memory twice", "Read/ReturnsMemoryThatNeverChanges", remember},
	{"ignores the budget", "Read/KeepsToTheBudget", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, read: func(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
			req.MaxBytes = 1 << 30
			return t.Read(ctx, req, dst)
		}}
	}},
	{"gives one reader at a time something", "Read/GivesEachOfManyReadersItsPlace", func(t driver.Topic) driver.Topic {
		var reading atomic.Int64
		return wrapped{Topic: t, read: func(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
			defer reading.Add(-1)
			if reading.Add(1) > 1 {
				return dst, req.Offset, nil
			}
			runtime.Gosched()
			return t.Read(ctx, req, dst)
		}}
	}},
	{"believes that what it has buffered is all", "Read/GivesWhatLiesBehindWhatItLeft", func(t driver.Topic) driver.Topic {
		var mu sync.Mutex
		end := int64(-1)
		return wrapped{Topic: t, read: func(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
			mu.Lock()
			defer mu.Unlock()
			if req.Offset == end {
				end = -1
				return dst, req.Offset, nil
			}
			recs, next, err := t.Read(ctx, req, dst)
			if b, err := t.Bounds(ctx, req.Partition); err == nil && next < b.Next {
				end = b.Next
			}
			return recs, next, err
		}}
	}},
	{"reads nothing outside of the bounds", "Read/OutsideOfTheBoundsIsOutOfRange", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, read: func(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
			recs, next, err := t.Read(ctx, req, dst)
			if errors.Is(err, commitlog.ErrOutOfRange) {
				err = nil
			}
			return recs, next, err
		}}
	}},
	{"overwrites dst", "Read/AppendsToDst", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, read: func(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
			return t.Read(ctx, req, dst[:0])
		}}
	}},
	{"seeks behind a time", "Read/OffsetAtFindsTheFirstRecordOfATime", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, offsetAt: func(ctx context.Context, p int, millis int64) (int64, error) {
			at, err := t.OffsetAt(ctx, p, millis)
			return at + 1, err
		}}
	}},
	{"wakes for nothing", "Wait/ReturnsOnlyWhenARecordIsReadable", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, wait: func(ctx context.Context, _ int, _ int64) error { return ctx.Err() }}
	}},
	{"never wakes", "Wait/NoWakeUpIsLost", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, wait: func(ctx context.Context, _ int, _ int64) error { <-ctx.Done(); return ctx.Err() }}
	}},
	{"waits on when the context ends", "Wait/EndsWithItsContext", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, wait: func(ctx context.Context, p int, offset int64) error {
			return t.Wait(context.WithoutCancel(ctx), p, offset)
		}}
	}},
	{"goes on after Close", "Close/AHandleEndsAlone", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, close: func() error { return nil }}
	}},
	{"forgets holds", "Hold/KeepsRecordsFromRetention", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, hold: func(_ context.Context, _ string, offsets []int64) error {
			if len(offsets) != t.Config().Partitions {
				return commitlog.ErrInvalid
			}
			return nil
		}}
	}},
	{"tells the first hold of a name", "Hold/IsToldByName", func(t driver.Topic) driver.Topic {
		var mu sync.Mutex
		told := map[string][]int64{}
		return wrapped{Topic: t, hold: func(ctx context.Context, name string, offsets []int64) error {
			mu.Lock()
			defer mu.Unlock()
			if told[name] == nil {
				told[name] = offsets
			}
			return t.Hold(ctx, name, told[name])
		}}
	}},
	{"heeds the last hold only", "Hold/KeepsRecordsFromRetention", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, hold: func(ctx context.Context, _ string, offsets []int64) error {
			return t.Hold(ctx, "the one", offsets)
		}}
	}},
	{"keeps everything", "Hold/KeepsRecordsFromRetention", func(t driver.Topic) driver.Topic {
		if err := t.Hold(context.Background(), "miser", make([]int64, t.Config().Partitions)); err != nil {
			panic(err) // the memory takes any hold
		}
		return t
	}},
	{"trims nothing", "Trim/RaisesTheFirstOffset", func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, trim: func(context.Context, int, int64) error { return nil }}
	}},
}

// waits is what the suite says of broken logs on which something never comes, which it has to wait for. It
// is no time-out of the test, and no deadlock.
var waits = map[string]string{
	"acks the wrong offset":          "wait for 1 of 2: context deadline exceeded",
	"never wakes":                    ": context deadline exceeded",
	"waits on when the context ends": "goes on for 30s though it has every reason to end",
	"goes on after Close":            "goes on for 30s though it has every reason to end",
	"keeps everything":               "bytes: retention drops something of a topic without a hold",
}

// TestBrokenLogs runs the suite on broken logs, each in a process of its own, and wants a failure. A
// suite that is slow on a busy machine is none.
func TestBrokenLogs(t *testing.T) {
	if name := os.Getenv("LOGTEST_BROKEN"); name != "" {
		for _, b := range brokenLogs {
			if b.name == name {
				logtest.Run(t, logtest.Harness{InMemory: true, Store: func(testing.TB) func() *commitlog.Log {
					store := memlog.NewStore(nil)
					return func() *commitlog.Log { return commitlog.New(wrappedLog{store.Driver(), b.wrap}) }
				}})
			}
		}
		return
	}
	t.Parallel()
	for _, b := range brokenLogs {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenLogs$/^"+strings.ReplaceAll(b.catch, "/", "$/^")+"$", "-test.timeout=5m", "-rapid.nofailfile")
			cmd.Env = append(os.Environ(), "LOGTEST_BROKEN="+b.name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			switch {
			case err == nil:
				t.Errorf("%s does not notice a log that %s", b.catch, b.name)
			case !errors.As(err, &exit):
				t.Fatalf("%v\n%s", err, out)
			case !strings.Contains(string(out), "--- FAIL: TestBrokenLogs/"+b.catch):
				t.Errorf("the failure is not one of %s:\n%s", b.catch, out)
			case strings.Contains(string(out), "panic:"):
				t.Errorf("%s does not end:\n%s", b.catch, out)
			case !strings.Contains(string(out), waits[b.name]):
				t.Errorf("the failure does not say %q:\n%s", waits[b.name], out)
			}
		})
	}
}

// A suite that refuses everything would notice every broken log.
func TestAWrappedLogThatIsNotBrokenPasses(t *testing.T) {
	t.Parallel()
	logtest.Run(t, logtest.Harness{InMemory: true, Store: func(testing.TB) func() *commitlog.Log {
		store := memlog.NewStore(nil)
		return func() *commitlog.Log {
			return commitlog.New(wrappedLog{store.Driver(), func(t driver.Topic) driver.Topic { return wrapped{Topic: t} }})
		}
	}})
}

type wrappedLog struct {
	driver.Log
	wrap func(driver.Topic) driver.Topic
}

func (l wrappedLog) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	if err != nil {
		return nil, err
	}
	return l.wrap(t), nil
}

// wrapped replaces some methods of a topic.
type wrapped struct {
	driver.Topic
	append   func(context.Context, *driver.AppendRequest, func(int64, error))
	read     func(context.Context, driver.ReadRequest, []driver.Record) ([]driver.Record, int64, error)
	wait     func(context.Context, int, int64) error
	offsetAt func(context.Context, int, int64) (int64, error)
	trim     func(context.Context, int, int64) error
	hold     func(context.Context, string, []int64) error
	seal     func(context.Context) ([]int64, error)
	close    func() error
}

func (w wrapped) Append(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
	if w.append == nil {
		w.Topic.Append(ctx, req, done)
		return
	}
	w.append(ctx, req, done)
}

func (w wrapped) Read(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
	if w.read == nil {
		return w.Topic.Read(ctx, req, dst)
	}
	return w.read(ctx, req, dst)
}

func (w wrapped) Wait(ctx context.Context, partition int, offset int64) error {
	if w.wait == nil {
		return w.Topic.Wait(ctx, partition, offset)
	}
	return w.wait(ctx, partition, offset)
}

func (w wrapped) OffsetAt(ctx context.Context, partition int, millis int64) (int64, error) {
	if w.offsetAt == nil {
		return w.Topic.OffsetAt(ctx, partition, millis)
	}
	return w.offsetAt(ctx, partition, millis)
}

func (w wrapped) Trim(ctx context.Context, partition int, before int64) error {
	if w.trim == nil {
		return w.Topic.Trim(ctx, partition, before)
	}
	return w.trim(ctx, partition, before)
}

func (w wrapped) Hold(ctx context.Context, name string, offsets []int64) error {
	if w.hold == nil {
		return w.Topic.Hold(ctx, name, offsets)
	}
	return w.hold(ctx, name, offsets)
}

func (w wrapped) Seal(ctx context.Context) ([]int64, error) {
	if w.seal == nil {
		return w.Topic.Seal(ctx)
	}
	return w.seal(ctx)
}

func (w wrapped) Close() error {
	if w.close == nil {
		return w.Topic.Close()
	}
	return w.close()
}

// changed breaks each record that is appended.
func changed(f func(*driver.Record)) func(driver.Topic) driver.Topic {
	return func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, append: func(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
			bad := *req
			bad.Records = append([]driver.Record(nil), req.Records...)
			for i := range bad.Records {
				f(&bad.Records[i])
			}
			t.Append(ctx, &bad, done)
		}}
	}
}

// producer breaks the producer of each append.
func producer(f func(*driver.Producer)) func(driver.Topic) driver.Topic {
	return func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, append: func(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
			bad := *req
			f(&bad.Producer)
			t.Append(ctx, &bad, done)
		}}
	}
}

// fenceByStored shows the log the epoch of each sequence's first append only.
func fenceByStored() func(driver.Topic) driver.Topic {
	type key struct {
		id        uint64
		partition int
		sequence  int64
	}
	var mu sync.Mutex
	epochs := map[key]int32{}
	return func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, append: func(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
			mu.Lock()
			defer mu.Unlock()
			bad, k := *req, key{req.Producer.ID, req.Partition, req.Producer.Sequence}
			if first, ok := epochs[k]; ok {
				bad.Producer.Epoch = min(bad.Producer.Epoch, first)
			}
			epochs[k] = bad.Producer.Epoch
			t.Append(ctx, &bad, done)
		}}
	}
}

// forget takes every producer for a new one after a thousand producers.
func forget() func(driver.Topic) driver.Topic {
	var mu sync.Mutex
	known, salt := map[uint64]bool{}, uint64(0)
	return producer(func(p *driver.Producer) {
		mu.Lock()
		defer mu.Unlock()
		if known[p.ID] = true; len(known) > 1000 {
			clear(known)
			salt++
		}
		p.ID += salt
	})
}

// reorder holds every third append back until the next one went in front of it.
func reorder(t driver.Topic) driver.Topic {
	var mu sync.Mutex
	var held func()
	n := 0
	return wrapped{Topic: t, append: func(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
		mu.Lock()
		defer mu.Unlock()
		copied := *req
		if n++; n%3 == 1 && held == nil {
			held = func() { t.Append(ctx, &copied, done) }
			return
		}
		t.Append(ctx, &copied, done)
		if held != nil && n%3 == 0 {
			held()
			held = nil
		}
	}}
}

// tear stores the first record of a batch alone. The first batch of a partition then waits until
// another one came in between.
func tear() func(driver.Topic) driver.Topic {
	var mu sync.Mutex
	met := map[int]chan struct{}{}
	return func(t driver.Topic) driver.Topic {
		return wrapped{Topic: t, append: func(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
			head, tail := *req, *req
			head.Records, tail.Records = req.Records[:1], req.Records[1:]
			if len(tail.Records) == 0 {
				t.Append(ctx, req, done)
				return
			}
			t.Append(ctx, &head, func(int64, error) {})
			mu.Lock()
			ch, second := met[req.Partition]
			switch {
			case !second:
				ch = make(chan struct{})
				met[req.Partition] = ch
			case ch != nil:
				close(ch)
				met[req.Partition] = nil
			}
			mu.Unlock()
			if !second {
				<-ch
			}
			t.Append(ctx, &tail, done)
		}}
	}
}

// remember returns the same memory for each read of an offset.
func remember(t driver.Topic) driver.Topic {
	var mu sync.Mutex
	seen := map[int64]driver.Record{}
	return wrapped{Topic: t, read: func(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
		recs, next, err := t.Read(ctx, req, dst)
		mu.Lock()
		defer mu.Unlock()
		for i, r := range recs[len(dst):] {
			if old, ok := seen[r.Offset]; ok {
				recs[len(dst)+i] = old
			}
			seen[r.Offset] = recs[len(dst)+i]
		}
		return recs, next, err
	}}
}
