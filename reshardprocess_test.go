package ringfence_test

import "testing"

// Members are killed as kill -9 does in the middle of five turns, while two keys are parked behind poison.
// Each key comes through in order, nothing is lost, there is one dead letter a poison record, and what is
// redriven after all turns is followed by what waits behind it.
func TestDeliverersKilledInTheMiddleOfTurnsLoseNothingAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	const each = 12
	turns := []int{3, 4, 6, 1, 5}
	procs := newDeliverers(t, 6, 8, 6)
	rf := procs.rf
	for turn, shards := range turns {
		procs.produce(turn*each, (turn+1)*each)
		eventually(t, "some records of the good keys", procs.through(turn*each+2, good))
		procs.start()
		_, err := rf.Reshard(t.Context(), "s", shards, nil)
		must(t, err)
		eventually(t, "the place in the turn where one is killed", func() bool {
			d, err := rf.DescribeSubscription(t.Context(), "s")
			must(t, err)
			_, closing := d.Closing()
			return []bool{true, closing, d.Set().Pause > 0, !d.Turning(), true}[turn] || !d.Turning()
		})
		procs.kill()
		info := turned(t, rf, "s")
		if info.Set().Shards != shards {
			t.Errorf("%d shards after the turn to %d", info.Set().Shards, shards)
		}
		t.Logf("%d shards: a pause of %d ms", shards, info.Set().Pause)
	}
	all := len(turns) * each
	eventually(t, "all records of the good keys", procs.through(all, good))
	procs.letters(all)
	procs.mend()
	_, err := rf.Reshard(t.Context(), "s", 2, nil) // the orders go along
	must(t, err)
	eventually(t, "all records", procs.through(all, anyKey))
	turned(t, rf, "s")
	procs.noLetters()
}
