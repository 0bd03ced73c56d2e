package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// retire retires what can be, until storage topic i was.
func retire(t *testing.T, rf *ringfence.Client, i int) {
	t.Helper()
	eventually(t, fmt.Sprintf("storage topic %d is retired", i), func() bool {
		r, err := rf.Admin().RetireStorage(t.Context(), "a", nil)
		must(t, err)
		return slices.Contains(r.Retired, i)
	})
}

// storageLeft are the storage topics that the log has.
func storageLeft(t *testing.T, rf *ringfence.Client) (names []string) {
	t.Helper()
	all, err := rf.Log().Topics(t.Context())
	must(t, err)
	for _, c := range all {
		name, _, _ := strings.Cut(strings.TrimPrefix(c.Name, "a.."), ".")
		names = append(names, name)
	}
	return names
}

// unitsLeft are the keys of what the registry knows of the units of a group.
func unitsLeft(t *testing.T, rf *ringfence.Client, group string) (keys []string) {
	t.Helper()
	for _, prefix := range []string{"groups/" + group + "/owners/", "checkpoints/" + group + "/"} {
		snap, err := rf.Registry().List(t.Context(), prefix)
		must(t, err)
		for _, e := range snap.Entries {
			keys = append(keys, strings.TrimPrefix(e.Key, prefix))
		}
	}
	return keys
}

// everywhere runs a test on the stores that need no server. open opens another client, as another
// process would.
func everywhere(t *testing.T, test func(t *testing.T, open func() *ringfence.Client)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		s := newStores()
		test(t, func() *ringfence.Client { return s.open(t) })
	})
	t.Run("directory", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		test(t, func() *ringfence.Client {
			rf, err := ringfence.Open(t.Context(), ringfence.Config{Dir: dir})
			must(t, err)
			t.Cleanup(func() { must(t, rf.Close()) })
			return rf
		})
	})
}

// A topic that grows and drops what is old ends with the storage topics that have records, in the log
// and in the registry, and nobody misses a record or sees one out of order.
func TestAFinishedStorageTopicIsRetired(t *testing.T) {
	t.Parallel()
	everywhere(t, retired3)
}

func retired3(t *testing.T, open func() *ringfence.Client) {
	rf, other, sleeper := open(), open(), open()
	l := newTallies()
	must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 2}))
	var src source
	src.send(t, sleeper, 1)
	src.send(t, other, 3)
	stop := l.member(t, rf, "m")
	for _, partitions := range []int{4, 8} {
		grow(t, rf, partitions)
		src.send(t, rf, 3)
		l.wait(t, growKeys*src.sent)
	}
	finished(t, rf, []int{2, 4, 8})

	r, err := rf.Admin().RetireStorage(t.Context(), "a", nil)
	must(t, err)
	if len(r.Retired) > 0 || len(r.Kept) != 2 || !strings.Contains(r.Kept[0].Why, "keeps records from offset 0") {
		t.Fatalf("%+v; expected that records which are kept keep their storage topics", r)
	}
	stop()
	_, err = rf.Admin().AlterTopic(t.Context(), "a", api.Retention{AgeMS: 1}, nil)
	must(t, err)
	retire(t, rf, 1)
	if left := storageLeft(t, rf); !slices.Equal(left, []string{"2"}) {
		t.Errorf("the log has the storage topics %v; expected 2", left)
	}
	for _, unit := range unitsLeft(t, rf, "g") {
		if unit < "00000006" {
			t.Errorf("the registry knows unit %s", unit)
		}
	}

	info, err := other.Admin().DescribeTopic(t.Context(), "a")
	must(t, err)
	if len(info.Storage) != 3 || !info.Storage[0].Retired() || !info.Storage[1].Retired() || info.Storage[2].Retired() || info.Storage[1].Size != 4 {
		t.Errorf("%+v", info)
	}
	// A group that comes begins with what is left, and one that was there goes on.
	_, err = rf.Admin().AlterTopic(t.Context(), "a", api.Retention{}, nil)
	must(t, err)
	defer l.member(t, open(), "n")()
	src.send(t, sleeper, 3) // it was at the first storage topic, and has heard of nothing
	l.wait(t, growKeys*src.sent)
	g, err := other.Admin().DescribeGroup(t.Context(), "g")
	must(t, err)
	if len(g.Units) != 8 || g.Units[0].Unit != 6 {
		t.Errorf("%+v", g)
	}
	grow(t, rf, 3)
	src.send(t, other, 3)
	l.wait(t, growKeys*src.sent)

	for _, opts := range []admin.SeekGroupOptions{{Storage: new(int)}, {Partitions: []int{5}}} {
		if _, err := other.Admin().SeekGroup(t.Context(), "g", ringfence.SeekEarliest, &opts); !errors.Is(err, ringfence.ErrInvalid) || !strings.Contains(err.Error(), "storage topics 2 to 3") {
			t.Errorf("%v; expected what is left", err)
		}
	}
	_, err = other.Admin().SeekGroup(t.Context(), "g", ringfence.SeekLatest, nil)
	must(t, err)
}

// Members do it by themselves, once the records are old enough, and so it stays a topic of few storage
// topics however often it is switched. One that is bounded by bytes lets go of what is more than that.
func TestMembersRetireStorageTopics(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		retention api.Retention
		first     string // the oldest storage topic that is left
	}{
		"age":        {api.Retention{AgeMS: time.Minute.Milliseconds()}, "3"},
		"bytes":      {api.Retention{Bytes: 1000}, "2"},
		"more bytes": {api.Retention{Bytes: 2000}, "1"},
		"all":        {api.Retention{}, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "mem:", Registry: "mem:"})
				must(t, err)
				defer rf.Close()
				must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 2}))
				l := newTallies()
				stops := []func(){l.member(t, rf, "m"), l.member(t, rf, "n")}
				var src source
				for _, partitions := range []int{4, 2, 3} {
					src.send(t, rf, 6) // some 800 bytes
					grow(t, rf, partitions)
				}
				src.send(t, rf, 6)
				l.wait(t, growKeys*src.sent)
				_, err = rf.Admin().AlterTopic(t.Context(), "a", c.retention, nil)
				must(t, err)
				time.Sleep(45 * time.Minute)
				synctest.Wait()
				if left := storageLeft(t, rf); left[0] != c.first {
					t.Errorf("after a while the log has the storage topics %v; expected %s to be the first", left, c.first)
				}
				for _, stop := range stops {
					stop()
				}
			})
		})
	}
}

// A topic that is switched again and again while storage topics are retired behind everybody's back, with
// producers that hear of it late and members that come and go.
func TestRetirementBehindABusyTopicKeepsTheOrder(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open func() *ringfence.Client) {
		rf, other, keeper := open(), open(), open()
		clients := []*ringfence.Client{rf, other}
		l := newTallies()
		must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 3}))
		var src source
		src.send(t, rf, 2)
		stops := []func(){l.member(t, rf, "m0"), l.member(t, other, "n")}
		l.wait(t, growKeys*src.sent)
		_, err := rf.Admin().AlterTopic(t.Context(), "a", api.Retention{AgeMS: 1}, nil) // the group is there, and holds
		must(t, err)

		over, retired := make(chan struct{}), make(chan int, 1)
		var once sync.Once
		end := func() int { once.Do(func() { close(over) }); n := <-retired; retired <- n; return n }
		defer end() // also of a test that has failed
		go func() { // joined by end
			n := 0
			for ended := false; !ended; {
				r, err := keeper.Admin().RetireStorage(t.Context(), "a", nil)
				if err != nil {
					t.Error(err)
				} else {
					n += len(r.Retired)
				}
				select {
				case <-over:
					ended = true
				case <-time.After(5 * time.Millisecond):
				}
			}
			retired <- n
		}()
		const rounds = 8
		for i := range rounds {
			grow(t, clients[i%2], 2+i%3)
			src.send(t, clients[(i/2)%2], 2)
			next := l.member(t, clients[i%2], fmt.Sprintf("m%d", i+1))
			stops[0]()
			stops[0] = next
			if i%3 == 0 {
				l.wait(t, growKeys*src.sent)
			}
		}
		l.wait(t, growKeys*src.sent)
		for _, stop := range stops {
			stop()
		}
		n := end()
		if n < rounds {
			retire(t, keeper, rounds-1)
		}
		if left := storageLeft(t, rf); !slices.Equal(left, []string{fmt.Sprint(rounds)}) {
			t.Errorf("the log has the storage topics %v; expected the last", left)
		}
		t.Logf("%d were retired meanwhile", n)
	})
}
