package e2e_test

import (
	"testing"
)

// Members are killed as kill -9 does in the middle of growths of the topic, with a change of the shards between
// two of them, while two keys are parked behind poison. Each key comes through in order, nothing is lost, there is
// one dead letter a poison record, and what is redriven in the end is followed by what waits behind it.
func TestDeliverersKilledInTheMiddleOfGrowthsLoseNothingAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	const each = 6 // before and after a growth
	d := deliverUnderFire(t, 4, 6)
	for turn, count := range []int{8, 6, 12, 3} {
		d.produce(each)
		d.start()
		grow(t, d.rf, count)
		d.produce(each)
		eventually(t, "the place in the growth where one is killed", func() bool {
			s, err := d.rf.Admin().GetSubscription(t.Context(), "s")
			must(t, err)
			_, closing := s.Closing()
			return []bool{s.Changing(), closing, s.Set().PauseMS > 0, true}[turn] || s.Set().Storage == turn+1
		})
		d.kill()
		info := follows(t, d.rf, "s", turn+1)
		t.Logf("%d partitions, %d shards: a pause of %d ms", count, info.Set().Shards, info.Set().PauseMS)
		if turn == 1 {
			_, err := d.rf.Admin().ReshardSubscription(t.Context(), "s", 4, nil)
			must(t, err)
			turned(t, d.rf, "s")
		}
	}
	eventually(t, "all records of the good keys", d.through(d.sent, goodKey))
	failed := d.givenUp()
	d.redrive()
	eventually(t, "all records", d.through(d.sent, anyKey))
	d.judge(failed)
}
