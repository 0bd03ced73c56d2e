package pulsarlog

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// A topic that no group has ever consumed drops what is too much or too old, as far as it is told to,
// and keeps what is held. Nobody calls anything but append.
func TestRetentionNeedsNoGroups(t *testing.T) {
	t.Parallel()
	l, a := opened(t, 100*time.Millisecond)
	topics := map[string]*commitlog.Topic{}
	for _, c := range []commitlog.TopicConfig{
		{Name: "all"},
		{Name: "bytes", RetentionBytes: 5000},
		{Name: "age", RetentionAgeMillis: 1},
		{Name: "held", RetentionBytes: 5000, RetentionAgeMillis: 1},
		{Name: "later"},
	} {
		c.Partitions = 1
		if err := l.CreateTopic(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		topic, err := l.Topic(t.Context(), c.Name)
		if err != nil {
			t.Fatal(err)
		}
		topics[c.Name] = topic
	}
	if err := topics["held"].Hold(t.Context(), "g", []int64{0}); err != nil {
		t.Fatal(err)
	}
	first := func(name string) int64 {
		b, err := topics[name].Bounds(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return b.First
	}
	for range 3 { // ledgers
		for name, topic := range topics {
			if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: make([]byte, 4000)}}, nil); err != nil {
				t.Fatal(err)
			}
			if err := a.unload(t.Context(), partitionName(name, 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.AlterTopic(t.Context(), commitlog.TopicConfig{Name: "later", Partitions: 1, RetentionBytes: 5000}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); slices.Min([]int64{first("bytes"), first("age"), first("later")}) == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("retention drops nothing: the topics begin at %d (bytes), %d (age), %d (later)", first("bytes"), first("age"), first("later"))
		}
	}
	if all, held := first("all"), first("held"); all != 0 || held != 0 {
		t.Errorf("a topic without retention begins at %d, one that is held from its beginning at %d", all, held)
	}
	for _, name := range []string{"all", "held"} {
		r, got := topics[name].NewReader(0, 0, nil), 0
		for got < 3 {
			recs, err := r.Next(t.Context())
			if err != nil {
				t.Fatalf("%s: %d of 3 records, then %v", name, got, err)
			}
			got += len(recs)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// opened opens a log on a namespace of its own, and says what else speaks to the cluster.
func opened(t *testing.T, retainEvery time.Duration) (*commitlog.Log, *admin) {
	t.Helper()
	u := namespace(t)
	config := Config{ServiceURL: "pulsar://" + u.Host, AdminURL: u.Query().Get("web"), Namespace: strings.TrimPrefix(u.Path, "/public/")}.withDefaults()
	client, err := config.newClient()
	if err != nil {
		t.Fatal(err)
	}
	l := newLog(config, client, config.admin(nil))
	l.retainEvery = retainEvery
	return commitlog.New(l), l.admin
}

// Nobody knows what a hold that can't be read was there to keep.
func TestADamagedHoldStopsRetention(t *testing.T) {
	t.Parallel()
	sound := metadata{Properties: map[string]string{holdPrefix + "a": "[7,-1]", holdPrefix + "b": "[9,3]", "other": "[1,1]"}}
	for partition, want := range []int64{7, 3} {
		if at, err := heldBy(sound, partition); err != nil || at != want {
			t.Errorf("partition %d is held from %d, %v; expected %d", partition, at, err, want)
		}
	}
	for _, damaged := range []string{"", "nonsense", "null", "[]", "[5]", `{"0":5}`, `["5","5"]`, "[5,"} {
		sound.Properties[holdPrefix+"damaged"] = damaged
		if at, err := heldBy(sound, 1); !errors.Is(err, fault.Corrupt) {
			t.Errorf("beside the hold %q retention may drop what is below %d, %v; expected ErrCorrupt", damaged, at, err)
		}
	}
}
