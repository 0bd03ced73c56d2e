package commitlog

import (
	"context"
	"errors"
	"fmt"
)

// ReadFunc reads one partition as Topic.Read does.
type ReadFunc func(ctx context.Context, offset int64, dst []Record, maxBytes int) ([]Record, int64, error)

// Lost reports whether a partition has lost a record that was read before, by its offset and its time: another one is
// in its place, or none, or there is a record behind it and below next, where none was. So a log that went back is
// known although it has grown past that place since. A record that can't be read any more, as retention dropped it or
// it is damaged, says nothing. Where it is read decides how fast: what follows lies in the same buffer.
func Lost(ctx context.Context, read ReadFunc, offset, time, next int64) (bool, error) {
	recs, after, err := read(ctx, offset, nil, 1)
	switch {
	case len(recs) == 0 && err != nil:
		return false, unlessGone(err)
	case len(recs) == 0 && after == offset:
		return false, fmt.Errorf("offset %d can't be read: %w", offset, ErrUnavailable)
	case len(recs) == 0 || recs[0].Offset != offset || recs[0].Timestamp != time:
		return true, nil
	case len(recs) > 1:
		return recs[1].Offset < next, nil
	case after >= next:
		return false, nil
	}
	recs, _, err = read(ctx, after, nil, 1)
	if len(recs) == 0 {
		return false, unlessGone(err)
	}
	return recs[0].Offset < next, nil
}

// unlessGone is the error of a read, or nil when that says that the record can't be read any more.
func unlessGone(err error) error {
	if errors.Is(err, ErrOutOfRange) || errors.Is(err, ErrCorrupt) {
		return nil
	}
	return err
}

// Lost is the function of that name on a partition. A topic that another program has compacted is not judged.
func (t *Topic) Lost(ctx context.Context, partition int, offset, time, next int64) (bool, error) {
	if t.Config().Compacted {
		return false, nil
	}
	return Lost(ctx, func(ctx context.Context, at int64, dst []Record, maxBytes int) ([]Record, int64, error) {
		return t.Read(ctx, partition, at, dst, &ReadOptions{MaxBytes: maxBytes})
	}, offset, time, next)
}
