package ringfence_test

import "testing"

// Members are killed as kill -9 does in the middle of growths of the topic, with a change of the shards between
// two of them, while two keys are parked behind poison. Each key comes through in order, nothing is lost, there is
// one dead letter a poison record, and what is redriven in the end is followed by what waits behind it.
func TestDeliverersKilledInTheMiddleOfGrowthsLoseNothingAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	const each = 12
	partitions := []int{8, 6, 12, 3}
	procs := newDeliverers(t, 4, 8, 6)
	rf := procs.rf
	for turn, count := range partitions {
		procs.produce(turn*each, turn*each+each/2)
		procs.start()
		grow(t, rf, count)
		procs.produce(turn*each+each/2, (turn+1)*each)
		eventually(t, "the place in the growth where one is killed", func() bool {
			d, err := rf.DescribeSubscription(t.Context(), "s")
			must(t, err)
			_, closing := d.Closing()
			return []bool{d.Turning(), closing, d.Set().Pause > 0, true}[turn] || d.Set().Storage == turn+1
		})
		procs.kill()
		info := follows(t, rf, "s", turn+1)
		t.Logf("%d partitions, %d shards: a pause of %d ms", count, info.Set().Shards, info.Set().Pause)
		if turn == 1 {
			_, err := rf.Reshard(t.Context(), "s", 4, nil)
			must(t, err)
			turned(t, rf, "s")
		}
	}
	all := len(partitions) * each
	eventually(t, "all records of the good keys", procs.through(all, good))
	procs.letters(all)
	procs.mend()
	eventually(t, "all records", procs.through(all, anyKey))
}
