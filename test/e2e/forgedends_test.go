package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/topic"
)

// By a forged end of a sealed partition a group would take its records for processed, or wait for ever for the
// last of them. Its members end, and say so, whether they come before or after.
func TestAnEndThatIsNotTheLogsIsTold(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]int64{"nothing": 0, "too early": 1, "too late": 9} {
		for _, live := range []bool{false, true} {
			s := newStores()
			rf := s.open(t)
			must(t, rf.EnsureTopic(t.Context(), "t", ringfence.TopicConfig{Partitions: 1}))
			for range 3 {
				_, err := rf.Produce(t.Context(), "t", ringfence.Message{Key: []byte("k"), Value: []byte("v")})
				must(t, err)
			}
			_, err := rf.Admin().AddStorage(t.Context(), "t", 2)
			must(t, err)
			_, err = rf.Admin().SwitchProduce(t.Context(), "t")
			must(t, err)
			change := func() {
				reg := s.reg.Open()
				e, err := reg.Get(t.Context(), "topics/t")
				must(t, err)
				var doc topic.Document
				must(t, json.Unmarshal(e.Value, &doc))
				doc.Storage[0].Ends = []int64{end}
				b, err := json.Marshal(doc)
				must(t, errors.Join(err, reg.Close()))
				forge(t, s, "topics/t", string(b))
			}
			if !live {
				change()
			}
			begun := make(chan struct{}, 3)
			over := make(chan error, 1)
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			go func() {
				over <- s.open(t).Consume(ctx, "t", "g", func(context.Context, *ringfence.Message) error {
					begun <- struct{}{}
					return nil
				}, nil)
			}()
			if live {
				<-begun
				change()
			}
			if err := <-over; !errors.Is(err, ringfence.ErrCorrupt) || !strings.Contains(err.Error(), `"topics/t"`) || !strings.Contains(err.Error(), "3 in the log") {
				t.Errorf("%s, live %t: %v; expected damage, its key, and what is right", name, live, err)
			}
		}
	}
}
