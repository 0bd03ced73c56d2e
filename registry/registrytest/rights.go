package registrytest

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/registry/driver"
)

// EveryOperation carries out each operation of a store once, with each kind of change, and returns the
// first error. It is for tests of the least rights: a store that was opened with too few fails in it. It
// takes a few seconds, for it waits until a session was renewed.
func EveryOperation(ctx context.Context, s driver.Registry) error {
	const prefix = "every-operation/"
	changes, err := s.Watch(ctx, prefix)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	x, err := s.OpenSession(ctx, 6*time.Second)
	if err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	opened := x.Deadline()
	apply := func(what string, t driver.Txn) (driver.Version, error) {
		results, err := s.Apply(ctx, []driver.Txn{t})
		if err == nil {
			err = results[0].Err
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", what, err)
		}
		if len(t.Puts) == 0 {
			return "", nil
		}
		return results[0].Versions[0], nil
	}
	for _, session := range []string{"", x.ID()} {
		key := prefix + session
		v, err := apply("put a new entry", driver.Txn{Checks: []driver.Check{{Key: key}}, Puts: []driver.Put{{Key: key, Session: session}}})
		if err != nil {
			return err
		}
		put := driver.Put{Key: key, Value: []byte("again"), Session: session}
		if _, err := apply("put an entry again", driver.Txn{Checks: []driver.Check{{Key: key, Version: v}}, Puts: []driver.Put{put}}); err != nil {
			return err
		}
	}
	if _, err := apply("delete an entry", driver.Txn{Deletes: []string{prefix}}); err != nil {
		return err
	}
	select { // all changes may be told as one
	case <-changes:
	case <-ctx.Done():
		return fmt.Errorf("no change was told: %w", ctx.Err())
	}
	for !x.Deadline().After(opened) {
		select {
		case <-x.Done():
			return fmt.Errorf("the session ended before it was renewed: %w", driver.ErrUnavailable)
		case <-ctx.Done():
			return fmt.Errorf("the session was not renewed: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err := x.Close(ctx); err != nil {
		return fmt.Errorf("close a session: %w", err)
	}
	for {
		list, err := s.List(ctx, prefix)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		if len(list.Entries) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the entries of the session are still there: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
