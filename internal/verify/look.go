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

// measureTakeover finds when the units of a dead consumer had new owners, and when these began
// with their first record.
func (d *groupDemo) measureTakeover(since int64, units map[int]int64, victim string) error {
	claimed, begun := make(map[int]int64), make(map[int]int64)
	earliest := func(m map[int]int64, e history.Event) {
		if at, ok := m[e.Unit]; !ok || e.At < at {
			m[e.Unit] = e.At
		}
	}
	err := d.read(since, func(e history.Event) {
		if _, ours := units[e.Unit]; !ours || e.Member == victim {
			return
		}
		switch e.Kind {
		case history.Owned:
			earliest(claimed, e)
		case history.Started:
			earliest(begun, e)
		}
	})
	for _, at := range claimed {
		d.result.TakeoverMillis = max(d.result.TakeoverMillis, float64(at-since)/1e6)
	}
	for _, at := range begun {
		d.result.FirstRecordMillis = max(d.result.FirstRecordMillis, float64(at-since)/1e6)
	}
	return err
}

// measureStale counts what a consumer wrote, after it woke up, under the epochs that it had when
// it was stopped.
func (d *groupDemo) measureStale(ctx context.Context, since int64, epochs map[int]int64, name string) error {
	deadline := time.Now().Add(2 * time.Second)
	for {
		before := d.result.StaleCommits
		d.result.StaleCommits, d.result.StaleRefused = 0, 0
		err := harness.Read(d.workers[name].spec.path(), since, func(e history.Event) {
			if epoch, had := epochs[e.Unit]; e.Kind != history.Committed || e.Began < since || !had || e.Epoch != epoch {
				return
			}
			d.result.StaleCommits++
			if e.Outcome == history.Refused {
				d.result.StaleRefused++
			}
		})
		settled := d.result.StaleCommits > 0 && d.result.StaleCommits == before
		if err != nil || settled || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// read calls each for the events since a moment.
func (d *groupDemo) read(since int64, each func(history.Event)) error {
	files, err := filepath.Glob(filepath.Join(d.dir, "*.jsonl"))
	for i := 0; i < len(files) && err == nil; i++ {
		err = harness.Read(files[i], since, each)
	}
	return err
}
