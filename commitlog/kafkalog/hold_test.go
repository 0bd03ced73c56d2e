package kafkalog

import (
	"fmt"
	"testing"
)

func TestTakeKeepsTheLatestHoldAndNoForeignKey(t *testing.T) {
	t.Parallel()
	have := heldSoFar{latest: map[string][]byte{}}
	for _, foreign := range []string{"", "k", "t/7/group", "t//", fmt.Sprintf("t/%032x", 7), fmt.Sprintf("t/%033x/g", 7)} {
		have.take([]byte(foreign), []byte("[1]"))
	}
	if len(have.latest) != 0 {
		t.Errorf("%d foreign keys are kept", len(have.latest))
	}
	key := fmt.Appendf(nil, "t/%032x/g", 7)
	have.take(key, []byte("[1]"))
	have.take(key, []byte("[2]"))
	if got := string(have.latest[string(key)]); got != "[2]" {
		t.Errorf("the hold is %q; expected the latest", got)
	}
	have.take(key, nil)
	if len(have.latest) != 0 {
		t.Errorf("a hold that was taken back is kept: %q", have.latest)
	}
}
