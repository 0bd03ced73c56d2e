package kafkalog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

// Who may write to the topic of the holds fills nobody's memory with it.
func TestHoldsTakeNoMoreMemoryThanTheyMay(t *testing.T) {
	t.Parallel()
	key := func(name string) []byte { return fmt.Appendf(nil, "t/%032x/%s", 7, name) }
	have := heldSoFar{latest: map[string][]byte{}}
	size := func() (n int) {
		for k, v := range have.latest {
			n += len(k) + len(v)
		}
		return n
	}
	take := func(k, v []byte) {
		t.Helper()
		if err := have.take(k, v); err != nil || size() != have.bytes {
			t.Fatalf("the key %.50q: %v, %d bytes; counted are %d", k, err, size(), have.bytes)
		}
	}
	large := bytes.Repeat([]byte("1,"), limits.KafkaHoldBytes)
	for _, foreign := range []string{"", "k", "t/7/group", "t//", fmt.Sprintf("t/%032x", 7), fmt.Sprintf("t/%033x/g", 7), string(key(strings.Repeat("g", limits.KafkaHoldBytes)))} {
		take([]byte(foreign), large)
	}
	if len(have.latest) != 0 {
		t.Errorf("%d keys are kept that none of ours wrote", len(have.latest))
	}
	take(key("long"), append([]byte("["), large...))
	if err := lower([]int64{-1}, "long", have.latest[string(key("long"))]); !errors.Is(err, fault.Corrupt) || have.bytes > 200 {
		t.Errorf("a hold too long says %v and takes %d bytes; expected it to be damaged, and small", err, have.bytes)
	}
	take(key("long"), nil)
	if have.bytes != 0 {
		t.Errorf("a hold that was taken back leaves %d bytes", have.bytes)
	}
	full := large[:limits.KafkaHoldBytes]
	var err error
	n := 0
	for ; err == nil && n <= limits.KafkaHoldsBytes/len(full); n++ {
		take(key("again"), full)
		err = have.take(key(fmt.Sprint(n)), full)
	}
	if !errors.Is(err, fault.Corrupt) || !strings.Contains(fmt.Sprint(err), holdsTopic) {
		t.Errorf("after %d holds of %d KiB: %v; expected an error that names the topic", n, len(full)>>10, err)
	}
	if size() > limits.KafkaHoldsBytes {
		t.Errorf("%d bytes are kept", size())
	}
}
