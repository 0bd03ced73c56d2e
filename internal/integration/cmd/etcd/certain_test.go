package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/registry"
)

// What docs/design/stores.md says of etcd, on an etcd.

// room is a server with a quota, and a registry in it.
func room(t *testing.T, quota int64, args ...string) (*registry.Registry, *clientv3.Client, string) {
	t.Helper()
	cfg := configured(t, args...)
	cfg.QuotaBackendBytes = quota
	e, _ := started(t, cfg)
	ready(t, e)
	host := cfg.ListenClientUrls[0].Host
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + host}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	r, err := opened(t.Context(), t, "etcd://"+host)
	if err != nil {
		t.Fatal(err)
	}
	return r, admin, host
}

// A full etcd gives one answer to what it applied and to what it did not. Whoever takes it for a
// refusal writes again what is there. Later, when it only refuses, that is known: a pause.
func TestNoSpaceSaysNothingUntilTheRevisionDoes(t *testing.T) {
	t.Parallel()
	const quota, size, writers = 4 << 20, 20_000, 24
	r, admin, host := room(t, quota)
	noise := make([]byte, size)
	for i := range noise {
		noise[i] = byte(rand.IntN(256))
	}
	create := func(key string) error {
		_, err := r.Txn(t.Context(), registry.Txn{Checks: []registry.Check{{Key: key}}, Puts: []registry.Put{{Key: key, Value: noise}}})
		return err
	}
	var mu sync.Mutex
	fate := map[string]error{} // of those that failed
	t.Run("until it is full", func(t *testing.T) {
		for w := range writers {
			t.Run(fmt.Sprint(w), func(t *testing.T) {
				t.Parallel()
				for n := range 10 * quota / size {
					key := fmt.Sprintf("k/%d-%d", w, n)
					if err := create(key); err != nil {
						mu.Lock()
						defer mu.Unlock()
						fate[key] = err
						return
					}
				}
			})
		}
	})
	snap, err := r.List(t.Context(), "k/")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, e := range snap.Entries {
		there[e.Key] = true
	}
	applied := 0
	for key, err := range fate {
		if !strings.Contains(err.Error(), "database space exceeded") {
			t.Fatalf("%s failed for another reason: %v", key, err)
		}
		if !there[key] {
			continue
		}
		applied++
		if !errors.Is(err, registry.ErrUnknown) {
			t.Errorf("%s is there, and the answer was that it is not: %v", key, err)
		}
	}
	t.Logf("%d were told that there is no space; %d of those had been applied", len(fate), applied)

	for range 3 {
		if err := create("later"); !errors.Is(err, registry.ErrUnavailable) || errors.Is(err, registry.ErrUnknown) {
			t.Errorf("a write to an etcd that is full, as it has said: %v; expected unavailable", err)
		}
	}
	if _, err := opened(t.Context(), t, "etcd://"+host); err != nil {
		t.Errorf("it can't be opened, not even for reading: %v", err)
	}

	if _, err := admin.Compact(t.Context(), snap.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	for key := range there {
		if _, err := r.Txn(t.Context(), registry.Txn{Deletes: []string{key}}); err != nil {
			t.Fatalf("deleting in a full etcd: %v", err)
		}
	}
	if snap, err = r.List(t.Context(), "k/"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), late)
	defer cancel()
	if _, err := admin.Compact(ctx, snap.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Defragment(ctx, host); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	for err = create("later"); err != nil; err = create("later") {
		if ctx.Err() != nil {
			t.Fatalf("a write after it was freed: %v", err)
		}
	}
}

// The request is refused before it is read, or before it is proposed; either way it can never
// succeed as it is.
func TestWhatIsTooLargeIsRefusedForGood(t *testing.T) {
	t.Parallel()
	r, _, _ := room(t, 0)
	for _, n := range []int{2, 4} { // above --max-request-bytes, and above what gRPC lets through
		txn := registry.Txn{}
		for i := range n {
			txn.Puts = append(txn.Puts, registry.Put{Key: fmt.Sprintf("large/%d", i), Value: make([]byte, registry.MaxValueBytes)})
		}
		if _, err := r.Txn(t.Context(), txn); !errors.Is(err, registry.ErrInvalid) {
			t.Errorf("%d values of the largest size: %v; expected an invalid argument", n, err)
		}
	}
	many := registry.Txn{}
	for i := range 129 {
		many.Deletes = append(many.Deletes, fmt.Sprintf("large/%d", i))
	}
	if _, err := r.Txn(t.Context(), many); !errors.Is(err, registry.ErrInvalid) {
		t.Errorf("more operations than etcd takes: %v; expected an invalid argument", err)
	}
	snap, err := r.List(t.Context(), "large/")
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.Entries) > 0 {
		t.Errorf("%d entries are there of what was refused", len(snap.Entries))
	}
}

// A session that has ended, and a right that is missing, refuse the whole transaction, whatever
// stands before.
func TestARefusalInTheMiddleOfATransactionAppliesNothing(t *testing.T) {
	t.Parallel()
	r, admin, host := room(t, 0)
	s, err := r.OpenSession(t.Context(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "half/1"}, {Key: "half/2", Session: s.ID()}}})
	if !errors.Is(err, registry.ErrFenced) {
		t.Errorf("a put with a session that has ended: %v; expected fenced", err)
	}
	for _, step := range []func() error{
		func() error { _, err := admin.UserAdd(t.Context(), "root", "rootword"); return err },
		func() error { _, err := admin.UserGrantRole(t.Context(), "root", "root"); return err },
		func() error { _, err := admin.RoleAdd(t.Context(), "rf"); return err },
		func() error {
			for _, prefix := range []string{"ringfence/format", "ringfence/v1/_/half/1"} {
				if _, err := admin.RoleGrantPermission(t.Context(), "rf", prefix, "", clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
					return err
				}
			}
			return nil
		},
		func() error { _, err := admin.UserAdd(t.Context(), "me", "hunter2"); return err },
		func() error { _, err := admin.UserGrantRole(t.Context(), "me", "rf"); return err },
		func() error { _, err := admin.AuthEnable(t.Context()); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	me, err := opened(t.Context(), t, "etcd://me:hunter2@"+host)
	if err != nil {
		t.Fatal(err)
	}
	_, err = me.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "half/1"}, {Key: "half/2"}}})
	if !errors.Is(err, registry.ErrUnavailable) || errors.Is(err, registry.ErrUnknown) {
		t.Errorf("a put without the right: %v; expected unavailable", err)
	}
	root, err := opened(t.Context(), t, "etcd://root:rootword@"+host)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := root.List(t.Context(), "half/")
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.Entries) > 0 {
		t.Errorf("of transactions that were refused there is %+v", snap.Entries)
	}
}
