package e2e_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// powered is a client whose log is at level os on a disk that can lose its power, and whose registry loses nothing.
func powered(t *testing.T, disk vfs.FS, reg *memregistry.Store) *ringfence.Client {
	t.Helper()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "disk:", Registry: "disk:", Durability: ringfence.OS, Backends: []ringfence.Backend{{
		Scheme: "disk",
		OpenLog: func(ctx context.Context, _ *url.URL, o driver.Options) (*commitlog.Log, error) {
			return filelog.Open(ctx, filelog.Config{FS: disk, SegmentBytes: filelog.MinSegmentBytes, Options: o})
		},
		OpenRegistry: func(context.Context, *url.URL, registrydriver.Options) (*registry.Registry, error) {
			return reg.Open().Registry, nil
		},
	}}})
	must(t, err)
	t.Cleanup(func() { must(t, rf.Close()) })
	return rf
}

// The definition of a topic that has grown says where the storage topic ends that is sealed. Groups wait until they
// have read up to there, so the log has to have that much after a loss of power, too.
func TestATopicThatHasGrownIsReadOnAfterALossOfPower(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		disk, reg := vfs.NewMem(seed), memregistry.NewStore()
		rf := powered(t, disk.Process(), reg)
		must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 1}))
		produce(t, rf, "a", 0, 200, 1)
		grow(t, rf, 1)
		rf = powered(t, disk.Crash(), reg)
		produce(t, rf, "a", 200, 10, 1)
		got := newRecorder()
		c := consume(t, rf, "a", "g", got.handle, ringfence.ConsumeOptions{})
		got.waitFor(t, 210)
		c.leave(t)
	}
}

// Where a group or a subscription is sent is stored in the registry. What gets its offsets from there on when the
// log loses its end would never be handled.
func TestWhoIsSentToTheEndMissesNothingAfterALossOfPower(t *testing.T) {
	t.Parallel()
	for what, send := range map[string]func(rf *ringfence.Client) error{
		"group": func(rf *ringfence.Client) error {
			_, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekLatest, nil)
			return err
		},
		"subscription": func(rf *ringfence.Client) error {
			_, err := rf.Admin().ResetSubscription(t.Context(), "s", ringfence.SeekTime(time.Now().Add(time.Hour)), nil)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(12) {
				disk, reg := vfs.NewMem(seed), memregistry.NewStore()
				rf := powered(t, disk.Process(), reg)
				must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 1}))
				_, err := rf.Admin().CreateSubscription(t.Context(), "s", admin.SubscriptionConfig{Topic: "a"})
				must(t, err)
				produce(t, rf, "a", 0, 1, 1)
				got := newRecorder()
				c := consume(t, rf, "a", "g", got.handle, ringfence.ConsumeOptions{})
				got.waitFor(t, 1)
				c.leave(t)
				produce(t, rf, "a", 1, 199, 1)
				must(t, send(rf))
				rf = powered(t, disk.Crash(), reg)
				info, err := rf.Admin().DescribeTopic(t.Context(), "a")
				must(t, err)
				if end := info.Storage[0].Partitions[0].Next; end != 200 {
					t.Errorf("seed %d: sent to offset 200, and after a loss of power the partition ends at %d", seed, end)
				}
			}
		})
	}
}
