package redisregistry

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/memtest"
	"github.com/ringfence/ringfence/registry/driver"
)

// stored is what a put makes of an entry in Redis.
func stored(p *driver.Put) []byte { return appendContent([]byte(version(7, newID())), p) }

// An entry that is accepted is what a put of it would store.
func FuzzEntry(f *testing.F) {
	f.Add(stored(&driver.Put{Value: []byte("v")}))
	f.Add(stored(&driver.Put{Session: "s", Value: []byte("v\x00w")}))
	f.Add(stored(&driver.Put{Session: "s"}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var e driver.Entry
		memtest.AtMost(t, 4*len(raw)+64, raw, func() { e = decodeEntry("k", raw) })
		if !bytes.HasPrefix(raw, []byte(e.Version)) || len(e.Version) != min(len(raw), versionBytes) {
			t.Fatalf("%q has the version %q", raw, e.Version)
		}
		if string(e.Value) == "\x00" {
			return
		}
		if len(e.Value)+len(e.Session)+len(e.Version) >= len(raw) {
			t.Fatalf("%d bytes became %+v", len(raw), e)
		}
		again := appendContent([]byte(e.Version), &driver.Put{Session: e.Session, Value: e.Value})
		if bound := raw[versionBytes] == bound; bound == (e.Session != "") && !bytes.Equal(again, raw) {
			t.Fatalf("%q is stored as %q", raw, again)
		}
	})
}

// Each transaction gets one answer: a version for each of its puts, or an error.
func FuzzResults(f *testing.F) {
	f.Add(int64(5), int64(5), 2)
	f.Add(int64(-1), int64(refusedFenced), 2)
	f.Add(int64(-1<<63), int64(-9), 2)
	f.Fuzz(func(t *testing.T, a, b int64, n int) {
		txns := []driver.Txn{
			{Checks: []driver.Check{{Key: "a"}}, Puts: []driver.Put{{Key: "a"}, {Key: "b"}}},
			{Puts: []driver.Put{{Key: "c"}}},
		}
		reply := []int64{a, b}[:min(max(n, 0), 2)]
		results, err := decodeResults(txns, reply, newID())
		if err != nil {
			if len(reply) == len(txns) {
				t.Fatal(err)
			}
			return
		}
		for i, r := range results {
			if (r.Err == nil) != (reply[i] >= 0) || r.Err == nil && len(r.Versions) != len(txns[i].Puts) {
				t.Fatalf("answer %d gives %+v", reply[i], r)
			}
			if errors.Is(r.Err, driver.ErrConflict) && (r.Failed < 0 || r.Failed >= len(txns[i].Checks)) {
				t.Fatalf("answer %d says that check %d of %d failed", reply[i], r.Failed, len(txns[i].Checks))
			}
		}
	})
}

// Anybody may publish on a channel of the detector: whatever it says, a process goes on, and calls
// out itself in bounded time when nobody else does.
func FuzzDetector(f *testing.F) {
	f.Add("call AAAAAAAAAAA 80", int64(80))
	f.Add("call ! 0", int64(0))
	f.Add("call AAAAAAAAAAA -5", int64(-5))
	f.Add("call AAAAAAAAAAA 3600000", int64(3_600_000))
	f.Add("call AAAAAAAAAAA 9223372036854775807", int64(1<<62))
	f.Add("hello AAAAAAAAAAA", int64(1))
	f.Fuzz(func(t *testing.T, message string, pause int64) {
		for _, calling := range []bool{true, false} {
			w := &detector{s: &store{process: "mmmmmmmmmmm"}, timer: time.NewTimer(time.Hour), calling: calling}
			memtest.AtMost(t, 1<<10, message, func() { w.take(message) })
			w.timer.Stop()
			if _, _, _, ok := decodeCall(message); !ok && w.calling != calling || calling && !w.calling && !strings.HasPrefix(message, "call ") {
				t.Fatalf("%q ended the calling", message)
			}
		}
		if d := new(detector).follow(time.Duration(pause)); d < missed*busyPause || d > (missed+1)*idlePause {
			t.Fatalf("after a call that announces the next in %s the wait is %s", time.Duration(pause), d)
		}
	})
}
