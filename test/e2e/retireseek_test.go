package e2e_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

// A seek that is stopped just before it writes does not send the group to what went meanwhile and say
// that all is well: nobody would ever know what was skipped.
func TestASeekThatWasStoppedDoesNotLeadToWhatIsGone(t *testing.T) {
	t.Parallel()
	trim := func(t *testing.T, rf *ringfence.Client) {
		info, err := rf.Admin().DescribeTopic(t.Context(), "a")
		must(t, err)
		st, err := rf.Log().Topic(t.Context(), info.Storage[0].Name)
		must(t, err)
		must(t, st.Trim(t.Context(), 0, 1<<40))
		must(t, st.Close())
	}
	first := 0
	for name, c := range map[string]struct {
		meanwhile func(t *testing.T, rf *ringfence.Client)
		opts      *admin.SeekGroupOptions
		want      error
		says      string
	}{
		"its records":         {trim, nil, ringfence.ErrOutOfRange, "seek again"},
		"retired, asked for":  {func(t *testing.T, rf *ringfence.Client) { trim(t, rf); retire(t, rf, 0) }, &admin.SeekGroupOptions{Storage: &first}, ringfence.ErrInvalid, "is retired"},
		"retired, one of all": {func(t *testing.T, rf *ringfence.Client) { trim(t, rf); retire(t, rf, 0) }, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStores()
			h := s.reg.Open()
			rf := s.open(t)
			slow := s.openAs(t, process{handle: h})
			must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 1}))
			l := newTallies()
			var src source
			src.send(t, rf, 2)
			stop := l.member(t, rf, "m")
			grow(t, rf, 1)
			src.send(t, rf, 2)
			l.wait(t, growKeys*src.sent)
			stop()

			var stopped atomic.Bool
			h.OnApply(func(keys []string) error {
				for _, k := range keys {
					if strings.Contains(k, "/owners/") && stopped.CompareAndSwap(false, true) {
						c.meanwhile(t, rf)
					}
				}
				return nil
			})
			to, err := slow.Admin().SeekGroup(t.Context(), "g", ringfence.SeekEarliest, c.opts)
			h.OnApply(nil)
			if !stopped.Load() || !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%+v, %v; expected %v", to, err, c.want)
			}
			if c.want == nil && (len(to.Positions) != 1 || to.Positions[0].Storage != 1 || to.Positions[0].Checkpoint != 0) {
				t.Errorf("sent to %+v; expected the beginning of storage topic 1", to)
			}
		})
	}
}
