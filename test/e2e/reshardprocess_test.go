package e2e_test

import (
	"testing"
)

// Members are killed as kill -9 does in the middle of five turns, while two keys are parked behind poison.
// Each key comes through in order, nothing is lost, there is one dead letter a poison record, and what is
// redriven after all turns is followed by what waits behind it.
func TestDeliverersKilledInTheMiddleOfTurnsLoseNothingAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	const each = 12
	d := deliverUnderFire(t, 6, 6)
	for turn, shards := range []int{3, 4, 6, 1, 5} {
		d.produce(each)
		eventually(t, "some records of the good keys", d.through(turn*each+2, goodKey))
		d.start()
		_, err := d.rf.Admin().ReshardSubscription(t.Context(), "s", shards, nil)
		must(t, err)
		eventually(t, "the place in the turn where one is killed", func() bool {
			s, err := d.rf.Admin().GetSubscription(t.Context(), "s")
			must(t, err)
			_, closing := s.Closing()
			return []bool{true, closing, s.Set().PauseMS > 0, !s.Changing(), true}[turn] || !s.Changing()
		})
		d.kill()
		info := turned(t, d.rf, "s")
		if info.Set().Shards != shards {
			t.Errorf("%d shards after the turn to %d", info.Set().Shards, shards)
		}
		t.Logf("%d shards: a pause of %d ms", shards, info.Set().PauseMS)
	}
	eventually(t, "all records of the good keys", d.through(d.sent, goodKey))
	failed := d.givenUp()
	d.redrive()
	_, err := d.rf.Admin().ReshardSubscription(t.Context(), "s", 2, nil) // the orders go along
	must(t, err)
	eventually(t, "all records", d.through(d.sent, anyKey))
	turned(t, d.rf, "s")
	d.cleared()
	d.judge(failed)
}
