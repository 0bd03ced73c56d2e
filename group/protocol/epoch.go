package protocol

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// Epochs are fencing tokens outside of the store too: receivers refuse what comes under a lower
// one. So none may be given twice, also by a store that lost its past, as a restored backup has.
// That is why an epoch is not only higher than the one that is stored: it is at least the time,
// by the store's own clock, at which it is given. What was lost was given before.

// epochZero is the time at which an epoch would have been 0: the beginning of 2020, in Unix ms.
const epochZero = 1_577_836_800_000

// MaxEpoch is the highest epoch that is believed. At one a millisecond it lasts 285,000 years, every
// reader of JSON keeps it exactly, and the one after it is a number still.
const MaxEpoch = 1 << 53

// MaxClaim is the highest epoch that is begun by a claim, and by a ring. Who owns something by then can
// still give it away, and be fenced, so many times more.
const MaxClaim = MaxEpoch - 1<<20

// CheckEpoch says whether an epoch of what may be begun: what is beyond most would be written for nobody
// to read. The time leads to no such epoch, so whoever wrote the one before was none of ours.
func CheckEpoch(what string, epoch, most int64) error {
	if epoch <= most {
		return nil
	}
	return fmt.Errorf("%s would begin epoch %d, and the highest is %d: somebody else wrote the one before; \"ringfence group delete --force\", \"ring delete\" or \"subscription delete --force\", whichever it is of, removes that with its progress: %w",
		what, epoch, most, fault.Corrupt)
}

// NextEpoch is the epoch that follows one, given at that time of the store (Unix ms): the
// milliseconds since the beginning of 2020, or one more than the last where changes are faster. Whatever a
// store that went back has forgotten was given earlier, so it is lower. Epochs have gaps: Owner.After says
// which one an epoch followed.
func NextEpoch(last, now int64) int64 { return max(last+1, now-epochZero) }

// follow completes the entry of an owner that comes after an epoch.
func follow(ctx context.Context, r *registry.Registry, last int64, next Owner) (_ Owner, err error) {
	next.After, next.Since = last, time.Now().UnixMilli()
	now, err := r.Now(ctx)
	if err != nil {
		return next, err
	}
	next.Epoch = NextEpoch(last, now)
	return next, CheckEpoch("the unit", next.Epoch, MaxEpoch)
}
