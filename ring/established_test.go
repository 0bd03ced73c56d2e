package ring

import (
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// One member has gone and another has come: what was decided for the one is no decision about the other.
func TestAMemberIsEstablishedByADecisionThatKnowsIt(t *testing.T) {
	t.Parallel()
	table := &tableRing{r: &Ring{cfg: Config{Member: "b", Incarnation: "2"}}}
	st := &protocol.State{Members: []protocol.Member{{ID: "b", Incarnation: "2"}}, MemberVersions: []registry.Version{"1"}}
	for _, c := range []struct {
		decidedFor []string
		want       bool
	}{{nil, false}, {[]string{"a@1"}, false}, {[]string{"b@1"}, false}, {[]string{"a@1", "b@2"}, false}, {[]string{"b@2"}, true}} {
		st.Assignment = &protocol.Assignment{Members: c.decidedFor, Targets: []string{"a"}}
		if got := table.established(st); got != c.want {
			t.Errorf("b@2 is established by a decision for %q: %t, expected %t", c.decidedFor, got, c.want)
		}
	}
}
