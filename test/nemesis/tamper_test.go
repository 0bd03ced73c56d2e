package nemesis

import (
	"slices"
	"testing"

	"github.com/ringfence/ringfence/internal/history"
)

// A judge that finds nothing may be blind. So each history that was found good is told again with
// one lie in it, and the judge has to see the promise that is broken then.

// lie is one change to the histories of several processes. It says whether there was something to
// change.
type lie struct {
	name  string
	tell  func(files [][]history.Event) bool
	broke history.Promise
}

var lies = []lie{
	{"a record was never processed", loseRecord, history.NotLost},
	{"a commit was accepted after its unit got a later owner", acceptCommit, history.Fence},
	{"a record was processed again after its checkpoint", repeatRecord, history.NotAgain},
	{"two records of a key changed places", overtake, history.KeyOrder},
	{"a unit had two owners in an epoch", ownTwice, history.OneOwner},
	{"all came with one token", oneToken, history.TokenRises},
}

// tamper checks that the judge sees each lie.
func tamper(t *testing.T, v verdict) {
	t.Helper()
	for _, l := range lies {
		files := make([][]history.Event, len(v.files))
		for i := range files {
			files[i] = slices.Clone(v.files[i])
		}
		if !l.tell(files) {
			t.Errorf("%s: the history has nothing of which to say that %s", v.scene, l.name)
			continue
		}
		report, err := check(files)
		must(t, err)
		if !slices.ContainsFunc(report.Violations, func(x history.Violation) bool { return x.Promise == l.broke }) {
			t.Errorf("%s: %s, and the judge does not see that it breaks the promise %q\n%s", v.scene, l.name, l.broke, report)
		}
	}
}

// first finds the first event of a kind that is fit.
func first(files [][]history.Event, fit func(file int, e history.Event) bool) (file, index int) {
	for i, events := range files {
		if j := slices.IndexFunc(events, func(e history.Event) bool { return fit(i, e) }); j >= 0 {
			return i, j
		}
	}
	return -1, -1
}

func isKind(k history.Kind) func(int, history.Event) bool {
	return func(_ int, e history.Event) bool { return e.Kind == k }
}

func sameRecord(a, b history.Event) bool {
	return a.Storage == b.Storage && a.Partition == b.Partition && a.Offset == b.Offset
}

func oneToken(files [][]history.Event) (some bool) {
	for _, events := range files {
		for i := range events {
			if e := &events[i]; e.Token != "" {
				e.Token, some = "1", true
			}
		}
	}
	return some
}

func loseRecord(files [][]history.Event) bool {
	i, j := first(files, isKind(history.Finished))
	if i < 0 {
		return false
	}
	lost := files[i][j]
	for k := range files {
		files[k] = slices.DeleteFunc(files[k], func(e history.Event) bool {
			return sameRecord(e, lost) && (e.Kind == history.Started || e.Kind == history.Finished || e.Kind == history.Failed)
		})
	}
	return true
}

// acceptCommit lets an owner commit after its unit has got a later one. It takes any commit that the
// member sent, not only one that was refused: when a refused one was asked for, the history may not
// know yet of the later owner, which is told of its ownership at about that time.
func acceptCommit(files [][]history.Event) bool {
	var owner history.Event
	i, j := first(files, func(_ int, e history.Event) bool {
		if e.Kind != history.Committed {
			return false
		}
		k, l := first(files, func(_ int, o history.Event) bool {
			return o.Kind == history.Owned && o.Member != "" && o.Unit == e.Unit && o.Epoch > e.Epoch
		})
		if k >= 0 {
			owner = files[k][l]
		}
		return k >= 0
	})
	if i < 0 {
		return false
	}
	late := files[i][j]
	late.Outcome = history.Accepted
	late.Began = max(late.Began, owner.At+1)
	late.At = max(late.At, late.Began+1)
	files[i] = slices.Delete(files[i], j, j+1)
	after := slices.IndexFunc(files[i], func(e history.Event) bool { return e.At > late.At })
	if after < 0 {
		after = len(files[i])
	}
	files[i] = slices.Insert(files[i], after, late)
	return true
}

// repeatRecord lets a member start the first record of its unit after all else that it did.
func repeatRecord(files [][]history.Event) bool {
	i, j := first(files, func(i int, e history.Event) bool {
		k, _ := lastCommit(files[i], e)
		return e.Kind == history.Started && k >= 0
	})
	if i < 0 {
		return false
	}
	again := files[i][j]
	k, at := lastCommit(files[i], again)
	again.At = at + 1
	files[i] = slices.Insert(files[i], k+1, again)
	return true
}

// lastCommit is the last accepted one of the tenure in which a record was started, when it covers
// the record.
func lastCommit(events []history.Event, started history.Event) (index int, at int64) {
	for i, e := range slices.Backward(events) {
		if e.Kind != history.Committed || e.Outcome != history.Accepted || e.Unit != started.Unit || e.Epoch != started.Epoch {
			continue
		}
		for _, p := range e.Positions {
			if p.Storage == started.Storage && p.Partition == started.Partition && p.Next > started.Offset {
				return i, e.At
			}
		}
	}
	return -1, 0
}

// overtake swaps the times of two records of one key that one member processed one after the other.
func overtake(files [][]history.Event) bool {
	for i, events := range files {
		starts := map[string]int{} // by key: the index of the last start
		for j, e := range events {
			if e.Kind != history.Started {
				continue
			}
			k, met := starts[e.Key]
			starts[e.Key] = j
			if !met || events[k].Epoch != e.Epoch || events[k].Unit != e.Unit || events[k].Offset >= e.Offset {
				continue
			}
			earlier, later := events[k], e
			for n := range events {
				switch x := &files[i][n]; {
				case !sameRecord(*x, earlier) && !sameRecord(*x, later) || x.Kind == history.Committed || x.Kind == history.Owned:
				case sameRecord(*x, earlier):
					x.Offset, x.Value = later.Offset, later.Value
				default:
					x.Offset, x.Value = earlier.Offset, earlier.Value
				}
			}
			return true
		}
	}
	return false
}

func ownTwice(files [][]history.Event) bool {
	i, j := first(files, func(_ int, e history.Event) bool { return e.Kind == history.Owned && e.Member != "" })
	if i < 0 {
		return false
	}
	other := files[i][j]
	other.Member, other.At = "somebody-else", other.At+1
	files[i] = slices.Insert(files[i], j+1, other)
	return true
}
