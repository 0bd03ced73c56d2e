package e2e_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// A group that consumed while the topic kept everything is there when a retention comes, with no
// member: it loses nothing of what it has not processed.
func TestARetentionThatComesLaterKeepsWhatAnIdleGroupNeeds(t *testing.T) {
	t.Parallel()
	rf := retained(t, "free")
	must(t, rf.EnsureTopic(t.Context(), "held", ringfence.TopicConfig{Partitions: 1}))
	c := stuckAtFive(t, rf)
	flood(t, rf, "held")
	c.leave(t)
	want := api.Retention{Bytes: 128 << 10}
	change, err := rf.Admin().AlterTopic(t.Context(), "held", want, nil)
	must(t, err)
	if len(change.Drops) != 1 || !change.Done || change.Drops[0].Until != 5 || change.Drops[0].Held == 0 {
		t.Errorf("the change says %+v; want partition 0 to go until 5, and the rest of it held", change)
	}
	retentionWorks(t, rf)
	if at := first(t, rf, "held"); at > 5 {
		t.Fatalf("the topic begins at offset %d; group g has processed 5 records only", at)
	}
	goesOnWithoutTheGroup(t, rf)
}

// What a dry run says is what goes, in all storage topics of a topic, and it changes nothing.
func TestADryRunSaysWhatAShorterRetentionDrops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rf := newStores().open(t)
		ctx := t.Context()
		must(t, rf.EnsureTopic(ctx, "t", ringfence.TopicConfig{Partitions: 1, RetentionAgeMS: time.Hour.Milliseconds()}))
		send := func(n int) {
			for range n {
				_, err := rf.Produce(ctx, "t", ringfence.Message{Value: make([]byte, 100)})
				must(t, err)
			}
		}
		firsts := func() (at []int64) {
			info, err := rf.Admin().DescribeTopic(ctx, "t")
			must(t, err)
			for _, s := range info.Storage {
				at = append(at, s.Partitions[0].First)
			}
			return at
		}
		send(4)
		time.Sleep(10 * time.Minute)
		send(3)
		_, err := rf.Admin().AddStorage(ctx, "t", 1)
		must(t, err)
		_, err = rf.Admin().SwitchProduce(ctx, "t")
		must(t, err)
		send(2)
		time.Sleep(10 * time.Minute)
		send(1)

		short := api.Retention{AgeMS: (15 * time.Minute).Milliseconds()}
		for _, dry := range []bool{true, false} {
			change, err := rf.Admin().AlterTopic(ctx, "t", short, &admin.AlterTopicOptions{DryRun: dry})
			must(t, err)
			if want := (api.RetentionDrop{First: 0, Until: 4, Records: 4, Bytes: 400}); len(change.Drops) != 1 || change.Drops[0] != want || change.Done == dry {
				t.Errorf("dry run %v: %+v; want %+v to go", dry, change, want)
			}
			want := int64(4)
			if dry {
				want = 0
			}
			if at := firsts(); at[0] != want || at[1] != 0 {
				t.Errorf("dry run %v: the storage topics begin at %d; want %d and 0", dry, at, want)
			}
		}
		change, err := rf.Admin().AlterTopic(ctx, "t", api.Retention{Bytes: 200}, nil)
		must(t, err)
		if len(change.Drops) != 2 || change.Drops[0].Records != 1 || change.Drops[1].Records != 1 {
			t.Errorf("%+v; want a record of each storage topic to go", change)
		}
		if at := firsts(); at[0] != 5 || at[1] != 1 {
			t.Errorf("the storage topics begin at %d; want 5 and 1", at)
		}
		info, err := rf.Admin().DescribeTopic(ctx, "t")
		if err != nil || info.Retention != (api.Retention{Bytes: 200}) || info.Altering {
			t.Errorf("described as %+v, %v", info, err)
		}
		if _, err := rf.Admin().AlterTopic(ctx, "t", api.Retention{Bytes: -1}, nil); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("a negative retention: %v", err)
		}
		if _, err := rf.Admin().AlterTopic(ctx, "u", api.Retention{}, nil); !errors.Is(err, ringfence.ErrNotFound) {
			t.Errorf("an unknown topic: %v", err)
		}
	})
}

// Who has seen a dry run does not wait for another.
func TestAnEstimateThatIsGivenIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	rf := newStores().open(t)
	must(t, rf.EnsureTopic(t.Context(), "t", ringfence.TopicConfig{Partitions: 1}))
	drop := api.RetentionDrop{Until: 7, Records: 7, Bytes: 70}
	change, err := rf.Admin().AlterTopic(t.Context(), "t", api.Retention{Bytes: 1}, &admin.AlterTopicOptions{
		Estimate: &api.RetentionChange{Drops: []api.RetentionDrop{drop}},
	})
	if err != nil || !change.Done || len(change.Drops) != 1 || change.Drops[0] != drop {
		t.Errorf("%+v, %v; expected a change with the estimate that was given", change, err)
	}
}
