package e2e_test

import (
	"testing"
)

// Members are killed while two keys are parked behind poison, while those become dead letters, and while
// they are redriven. Each key comes through in order, nothing is lost, and there is one dead letter a
// poison record.
func TestDeliverersKilledOverParkedKeysLoseNothingAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	const rounds, each = 5, 12
	d := deliverUnderFire(t, 3, 6)
	for range rounds {
		d.produce(each)
		eventually(t, "most records of the good keys", d.through(d.sent-4, goodKey))
		d.start()
		d.kill()
	}
	eventually(t, "all records of the good keys", d.through(d.sent, goodKey))
	failed := d.givenUp()
	next := orderOf(t, d.seen())
	for key, bad := range poison {
		if next[key] != bad {
			t.Errorf("of %s %d records were delivered", key, next[key])
		}
	}
	d.redrive()
	eventually(t, "the redriven records", d.through(poison["k1"]+1, anyKey))
	d.start()
	d.kill()
	eventually(t, "all records", d.through(d.sent, anyKey))
	d.cleared()
	d.judge(failed)
}
