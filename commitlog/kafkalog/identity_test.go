package kafkalog

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
)

func TestProducersThatAreIdleAreForgotten(t *testing.T) {
	t.Parallel()
	q := &queue{}
	begun := time.Now().Add(-time.Hour)
	const doubtful, waits, old, retried = 1, 2, 3, 4
	for id := uint64(1); id <= 2*keepIdentities; id++ {
		i := q.identity(id)
		i.known, i.used = id != doubtful && id != old, begun.Add(time.Duration(id)*time.Millisecond)
	}
	q.others[old].used = begun.Add(-24 * time.Hour)
	q.waiting = append(q.waiting, entry{b: &batch{}}, entry{w: &pending{req: &driver.AppendRequest{Producer: driver.Producer{ID: waits}}}})
	q.retry = &batch{identity: q.others[retried]}
	q.identity(1 << 40)
	if want := keepIdentities + 3 + 1; len(q.others) != want {
		t.Errorf("%d producers are kept; want %d", len(q.others), want)
	}
	for _, id := range []uint64{doubtful, waits, retried, 2 * keepIdentities, 1 << 40} {
		if q.others[id] == nil {
			t.Errorf("producer %d was forgotten", id)
		}
	}
	for _, id := range []uint64{old, 5, keepIdentities} {
		if q.others[id] != nil {
			t.Errorf("producer %d is kept", id)
		}
	}
}
