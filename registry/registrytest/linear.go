package registrytest

import (
	"math/bits"
	"time"

	"github.com/ringfence/ringfence/registry/driver"
)

var driverOptions = driver.Options{}

// operation is a read or a write of one register, with when it was called and came back.
type operation struct {
	write      bool
	value      string
	call, back time.Duration
}

// explainable searches for a linearization, the way Wing and Gong do: an operation may come next
// if no other that remains came back before it was called. States that were tried are remembered
// by the set of what is done and the register's value (Lowe). At most 64 operations.
func explainable(history []operation) bool {
	type situation struct {
		done  uint64
		value string
	}
	tried := map[situation]bool{}
	var search func(done uint64, value string) bool
	search = func(done uint64, value string) bool {
		if bits.OnesCount64(done) == len(history) {
			return true
		}
		at := situation{done, value}
		if tried[at] {
			return false
		}
		tried[at] = true
		first := time.Duration(1<<63 - 1)
		for i, op := range history {
			if done&(1<<i) == 0 {
				first = min(first, op.back)
			}
		}
		for i, op := range history {
			if done&(1<<i) != 0 || op.call > first || !op.write && op.value != value {
				continue
			}
			if search(done|1<<i, op.value) {
				return true
			}
		}
		return false
	}
	return search(0, "")
}
