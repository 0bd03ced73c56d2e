package history_test

import (
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/history"
)

// Each record that was in flight may be delivered once more, and no other: one that is counted
// without need excuses a duplicate that nothing explains.
func TestOnlyWhatWasInFlightExcusesADuplicate(t *testing.T) {
	t.Parallel()
	done := next(0, protocol.Range{1, 2})
	half := func() *story { // 0 and 2 are in flight, 1 is done
		return begun().start("a", 1, 0, "").process("a", 1, "", 1).start("a", 1, 2, "").commit("a", 1, done)
	}
	seek := func(s *story, epoch, to int64) *story {
		return s.add(history.Event{Kind: history.Seek, Epoch: epoch, Positions: []protocol.Position{next(to)}})
	}
	for _, c := range []struct {
		name  string
		story *story
		want  int64
	}{
		{"a takeover", half().own("b", 2, done), 2},
		{"a takeover by one who knows of nothing done", begun().process("a", 1, "", 0, 1).own("b", 2), 2},
		{"two takeovers of what one started", half().own("b", 2, done).own("c", 3, done), 4},
		{"a session that was lost", half().add(history.Event{Kind: history.Rejoined, Member: "a"}), 2},
		{"a rollback", half().add(history.Event{Kind: history.Rollback, Epoch: 1, Positions: []protocol.Position{done}}), 2},
		{"a seek", seek(begun().start("a", 1, 0, ""), 2, 0).own("b", 2, next(0)), 1},
		{"takeovers after a seek", seek(begun().start("a", 1, 0, ""), 2, 0).own("b", 2, next(0)).own("c", 3, next(0)).own("d", 4, next(0)), 1},
		{"nothing", begun().process("a", 1, "", 0, 1).commit("a", 1, next(2)).own("b", 2, next(2)), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if r := c.story.check(true, false); r.InFlight != c.want {
				t.Errorf("%d records are said to have been in flight; expected %d\n%s", r.InFlight, c.want, r)
			}
		})
	}
}
