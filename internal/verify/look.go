package verify

import (
	"context"
	"path/filepath"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
)

// alive are the consumers that run.
func (d *groupDemo) alive() (names []string) {
	for _, name := range d.names() {
		if p := d.workers[name].proc; p != nil && !p.Ended() {
			names = append(names, name)
		}
	}
	return names
}

// balanced says whether exactly the live consumers are members, and each has its share.
func (d *groupDemo) balanced(g api.Group) bool {
	alive := d.alive()
	if len(g.Members) != len(alive) || len(g.Units) != d.Partitions {
		return false
	}
	least := d.Partitions / len(alive)
	share := make(map[string]int)
	for _, u := range g.Units {
		if !u.Alive || u.Target != "" {
			return false
		}
		share[u.Owner]++
	}
	for _, name := range alive {
		if n := share[name]; n < least || n > least+1 {
			return false
		}
	}
	return true
}

// without says whether every partition has a live owner other than name.
func (d *groupDemo) without(name string) func(api.Group) bool {
	return func(g api.Group) bool {
		for _, u := range g.Units {
			if !u.Alive || u.Owner == name {
				return false
			}
		}
		return true
	}
}

// owners are the consumers that own partitions, in the order of their names.
func (d *groupDemo) owners(g api.Group) (names []string) {
	for _, name := range d.names() {
		if len(owned(g, name)) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// owned are the units of a member, with their epochs.
func owned(g api.Group, name string) map[int]int64 {
	units := make(map[int]int64)
	for _, u := range g.Units {
		if u.Owner == name {
			units[u.Unit] = u.Epoch
		}
	}
	return units
}

func moved(before, after api.Group) (n int) {
	for i := range after.Units {
		if before.Units[i].Epoch != after.Units[i].Epoch {
			n++
		}
	}
	return n
}

// measureTakeover finds when the units of a dead consumer had new owners, and when their first records began.
func (d *groupDemo) measureTakeover(since int64, units map[int]int64, victim string) {
	first := map[history.Kind]map[int]int64{history.Owned: {}, history.Started: {}}
	for _, path := range must(filepath.Glob(filepath.Join(d.dir, "*.jsonl"))) {
		check(harness.Read(path, since, func(e history.Event) {
			m := first[e.Kind]
			if _, ours := units[e.Unit]; m == nil || !ours || e.Member == victim {
				return
			}
			if at, ok := m[e.Unit]; !ok || e.At < at {
				m[e.Unit] = e.At
			}
		}))
	}
	last := func(kind history.Kind) (millis float64) {
		for _, at := range first[kind] {
			millis = max(millis, float64(at-since)/1e6)
		}
		return millis
	}
	d.result.TakeoverMillis, d.result.FirstRecordMillis = last(history.Owned), last(history.Started)
}

// measureStale counts what a consumer wrote, once woken, under the epochs from before its stop.
func (d *groupDemo) measureStale(ctx context.Context, since int64, epochs map[int]int64, name string) {
	for deadline := time.Now().Add(2 * time.Second); ; {
		before := d.result.StaleCommits
		d.result.StaleCommits, d.result.StaleRefused = 0, 0
		check(harness.Read(d.workers[name].spec.path(), since, func(e history.Event) {
			if epoch, had := epochs[e.Unit]; e.Kind != history.Committed || e.Began < since || !had || e.Epoch != epoch {
				return
			}
			d.result.StaleCommits++
			if e.Outcome == history.Refused {
				d.result.StaleRefused++
			}
		}))
		if d.result.StaleCommits > 0 && d.result.StaleCommits == before || time.Now().After(deadline) {
			return
		}
		check(pause(ctx, 50*time.Millisecond))
	}
}
