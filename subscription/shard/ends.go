package shard

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/subscription/core"
)

// The shard asks for the end of a log so many times, with a pause between, before it trusts an end below what
// was known.
const (
	endLooks = 3
	endPause = time.Second
)

// Fit compares what the journal says of a partition of the main topic with what the partition has. It is
// called once Started is closed; no record of the partition may be handled before it has returned true. It
// waits while records are parked, or dead letters, that the partition does not have: they would be
// mistaken for those that come in their places. Meanwhile parked records are delivered, and orders carried
// out. It returns false when the unit is to be drained, or enough is closed: the shard is to end.
func (s *Shard) Fit(ctx context.Context, draining, enough <-chan struct{}, storage, partition int, main dispatch.Source) (bool, error) {
	end := core.Origin{Storage: int32(storage), Partition: int32(partition)}
	there, torn := s.beyond(end)
	for look := 0; there.Any() && look < endLooks; look++ {
		if look > 0 && !pause(ctx, draining, enough) {
			return false, ctx.Err()
		}
		b, err := main.Bounds(ctx)
		if err != nil {
			return false, err
		}
		end.Offset = max(end.Offset, b.Next)
		there, torn = s.beyond(end)
	}
	if there.Any() {
		s.log.Error("the journal says that records are parked or finished which the partition has not got: the log went back, or another program wrote to the journal. That they are finished is not believed",
			"storage", storage, "partition", partition, "end", end.Offset, "highest", there.Highest, "keys", there.Finished, "parked", there.Parked)
		s.do(func(st *core.State) { st.Bound(end) })
		_, torn = s.beyond(end)
	}
	if torn > 0 {
		s.log.Error("no record of the partition is delivered before what is parked that it has not got: redrive or discard the dead letters among that (ringfence subscription dead-letters)",
			"storage", storage, "partition", partition, "records", torn)
	}
	for torn > 0 {
		if !pause(ctx, draining, enough) {
			return false, ctx.Err()
		}
		_, torn = s.beyond(end)
	}
	return true, nil
}

// beyond looks for what lies at or above an end, and counts what is known to have been beyond it.
func (s *Shard) beyond(end core.Origin) (b core.Beyond, torn int) {
	s.do(func(st *core.State) { b, torn = st.Beyond(end), st.Torn() })
	return b, torn
}

// pause waits a while; false: there is no time for that.
func pause(ctx context.Context, draining, enough <-chan struct{}) bool {
	wait := time.NewTimer(endPause)
	defer wait.Stop()
	select {
	case <-wait.C:
		return true
	case <-draining:
	case <-enough:
	case <-ctx.Done():
	}
	return false
}
