package shard

import (
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

// The stored form of a parked record: the user's record as it was, with one more header behind all others,
// which holds what the core knows of it. So the internal topics are ordinary topics, which people can read,
// and a payload is stored once, with its state.

// headerName is the header that marks a record of an internal topic as ours. A user's record may have
// such a header itself, when it was read from such a topic: ours is the last one.
const headerName = "ringfence-parked"

// headroom is what our header may add to a user's record.
const headroom = 8 << 10

// wrap makes the stored form of a journal's record, with or without the user's payload.
func wrap(r *core.Record, payload *commitlog.Record) commitlog.Record {
	out := commitlog.Record{Key: r.Key}
	if payload != nil {
		out.Key, out.Value, out.Headers = payload.Key, payload.Value, slices.Clone(payload.Headers)
	}
	out.Headers = append(out.Headers, commitlog.Header{Name: headerName, Value: core.Encode(r, out.Key)})
	return out
}

// unwrap reads it; set "" is any. A record that no shard wrote is fault.Corrupt: another producer has written into an internal
// topic. It counts for nothing, like all records outside of a valid tenure. A newer version raises the format of the
// definition before it writes anything that this one can't read, and this version's members end then (ErrNewer).
func unwrap(set string, rec *commitlog.Record) (*core.Record, commitlog.Record, error) {
	user := commitlog.Record{Key: rec.Key, Value: rec.Value}
	for i := len(rec.Headers) - 1; i >= 0; i-- {
		if rec.Headers[i].Name != headerName {
			continue
		}
		r, err := core.Decode(rec.Headers[i].Value, rec.Key)
		if err == nil && set != "" && r.Set != set {
			err = fmt.Errorf("a record of shard set %q, not of %q: %w", r.Set, set, fault.Corrupt)
		}
		user.Headers = slices.Delete(slices.Clone(rec.Headers), i, i+1)
		if err == nil {
			user.Timestamp = r.Timestamp
		}
		return r, user, err
	}
	return nil, user, fmt.Errorf("a record without the header %s: %w", headerName, fault.Corrupt)
}

// Storable checks that a record can be parked.
func Storable(r *commitlog.Record) error {
	if n := commitlog.RecordBytes(r) + headroom; n > commitlog.MaxRecordBytes {
		return fmt.Errorf("the record is too large to be parked, by %d bytes; it is held until it succeeds: %w", n-commitlog.MaxRecordBytes, fault.Invalid)
	}
	if len(r.Headers) >= commitlog.MaxHeaders {
		return fmt.Errorf("the record has %d headers, and none is left to park it with; it is held until it succeeds: %w", len(r.Headers), fault.Invalid)
	}
	return nil
}
