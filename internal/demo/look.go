package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
)

func caughtUp(g ringfence.GroupInfo) bool { return g.Lag == 0 }

// balanced says whether exactly those on stage are members, and each has its share.
func (st *stage) balanced(g ringfence.GroupInfo) bool {
	if len(g.Members) != len(st.actors) || len(g.Units) != st.Partitions {
		return false
	}
	least := st.Partitions / len(st.actors)
	share := make(map[string]int)
	for _, u := range g.Units {
		if !u.Alive || u.Target != "" {
			return false
		}
		share[u.Owner]++
	}
	for who := range st.actors {
		if n := share[who]; n < least || n > least+1 {
			return false
		}
	}
	return true
}

// without says whether every partition has a live owner other than who.
func (st *stage) without(who string) func(ringfence.GroupInfo) bool {
	return func(g ringfence.GroupInfo) bool {
		for _, u := range g.Units {
			if !u.Alive || u.Owner == who {
				return false
			}
		}
		return true
	}
}

// owners are those who have partitions, in the order of their names.
func (st *stage) owners(g ringfence.GroupInfo) (names []string) {
	for i := range st.Consumers {
		if len(owned(g, name(i))) > 0 {
			names = append(names, name(i))
		}
	}
	return names
}

// missing is the first consumer that is not on stage.
func (st *stage) missing() string {
	i := 0
	for st.actors[name(i)] != nil {
		i++
	}
	return name(i)
}

// owned are the units of a member, with their epochs.
func owned(g ringfence.GroupInfo, who string) map[int]int64 {
	units := make(map[int]int64)
	for _, u := range g.Units {
		if u.Owner == who {
			units[u.Unit] = u.Epoch
		}
	}
	return units
}

func moved(before, after ringfence.GroupInfo) (n int) {
	for i := range after.Units {
		if before.Units[i].Epoch != after.Units[i].Epoch {
			n++
		}
	}
	return n
}

// read returns the events of all consumers since a moment.
func (st *stage) read(since int64, each func(history.Event)) error {
	files, err := filepath.Glob(filepath.Join(st.Dir, "history", "*-*.jsonl"))
	if err != nil {
		return err
	}
	for _, path := range files {
		if err := harness.Read(path, since, each); err != nil {
			return err
		}
	}
	return nil
}

// measureTakeover finds when the units of a dead consumer had new owners, and when these began
// with their first record.
func (st *stage) measureTakeover(since int64, units map[int]int64, victim string) error {
	claimed, begun := make(map[int]int64), make(map[int]int64)
	earliest := func(m map[int]int64, e history.Event) {
		if at, ok := m[e.Unit]; !ok || e.At < at {
			m[e.Unit] = e.At
		}
	}
	err := st.read(since, func(e history.Event) {
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
		st.result.TakeoverMillis = max(st.result.TakeoverMillis, float64(at-since)/1e6)
	}
	for _, at := range begun {
		st.result.FirstRecordMillis = max(st.result.FirstRecordMillis, float64(at-since)/1e6)
	}
	return err
}

// measureStale counts what a consumer wrote, after it woke up, under the epochs that it had when
// it was stopped.
func (st *stage) measureStale(ctx context.Context, since int64, epochs map[int]int64, who string) error {
	deadline := time.Now().Add(2 * time.Second)
	for {
		before := st.result.StaleCommits
		st.result.StaleCommits, st.result.StaleRefused = 0, 0
		err := harness.Read(st.histories[who], since, func(e history.Event) {
			if epoch, had := epochs[e.Unit]; e.Kind != history.Committed || e.Began < since || !had || e.Epoch != epoch {
				return
			}
			st.result.StaleCommits++
			if e.Outcome == history.Refused {
				st.result.StaleRefused++
			}
		})
		settled := st.result.StaleCommits > 0 && st.result.StaleCommits == before
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

// judge gives all histories to the checker.
func (st *stage) judge() error {
	files, err := filepath.Glob(filepath.Join(st.Dir, "history", "*.jsonl"))
	if err != nil {
		return err
	}
	report, err := harness.Judge(history.Config{}, true, files...)
	if err != nil {
		return err
	}
	r := &st.result
	r.Produced, r.Delivered, r.Duplicated, r.InFlight = report.Produced, report.Delivered, report.Duplicated, report.InFlight
	r.Lost, r.Reordered, r.Refused = report.Lost, report.Reordered, report.Refused
	r.Takeovers, r.Handoffs = report.Takeovers, report.Handoffs
	for _, v := range report.Violations {
		r.Broken = append(r.Broken, v.String())
	}
	if r.StaleCommits == 0 {
		r.Broken = append(r.Broken, "the stopped consumer never wrote its stale checkpoints, so nothing shows that they are refused")
	}
	if r.StaleRefused < r.StaleCommits {
		r.Broken = append(r.Broken, fmt.Sprintf("%d checkpoints under an old epoch were not refused", r.StaleCommits-r.StaleRefused))
	}
	st.verdict(len(files))
	if len(r.Broken) > 0 {
		return fmt.Errorf("%d of them: %w", len(r.Broken), ErrBroken)
	}
	return nil
}
