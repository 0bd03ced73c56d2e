package topic_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/topic"
)

// forge writes what a key says.
func (s *setup) forge(t *testing.T, key, value string) {
	t.Helper()
	_, err := s.reg.Txn(context.WithoutCancel(t.Context()), registry.Txn{Puts: []registry.Put{{Key: key, Value: []byte(value)}}})
	must(t, err)
}

func metaOf(topicName, life string) string {
	return fmt.Sprintf(`{"format":1,"life":%q,"topic":%q,"units":1,"assignor":"sticky","created":1}`, life, topicName)
}

// said is what a key says; "": it is not there.
func (s *setup) said(t *testing.T, key string) string {
	t.Helper()
	e, err := s.reg.Get(t.Context(), key)
	if err != nil && !errors.Is(err, fault.NotFound) {
		t.Fatal(err)
	}
	return string(e.Value)
}

// With a topic go its groups, and nobody else's; what can't be read is nobody's, and hinders nothing.
func TestADeletionTakesTheGroupsOfItsTopicAlone(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	for _, name := range []string{"a", "b"} {
		must(t, s.catalog.Create(t.Context(), name, topic.Config{Partitions: 1}))
	}
	stays := map[string]string{
		"groups/another/meta": metaOf("b", "one"),
		"groups/damaged/meta": `{"format":1,`,
		"groups/newer/meta":   `{"format":99,"topic":"a"}`,
	}
	for key, value := range stays {
		s.forge(t, key, value)
	}
	s.forge(t, "groups/its/meta", metaOf("a", "two"))
	must(t, s.catalog.Delete(t.Context(), "a", ""))
	for key, value := range stays {
		if is := s.said(t, key); is != value {
			t.Errorf("%s: %q; expected it as it was", key, is)
		}
	}
	if is := s.said(t, "groups/its/meta"); is != "" {
		t.Errorf("left of the group of the topic is %q", is)
	}
}

// swapping is a registry in which something happens once, when a key was read.
type swapping struct {
	registrydriver.Registry
	key  string
	once sync.Once
	swap func()

	before    string // a prefix; "": none
	began     sync.Once
	meanwhile func() // happens once before it is listed
}

func (r *swapping) List(ctx context.Context, prefix string) (registrydriver.Snapshot, error) {
	if r.before == prefix && prefix != "" {
		r.began.Do(r.meanwhile)
	}
	snap, err := r.Registry.List(ctx, prefix)
	if prefix == r.key {
		r.once.Do(r.swap)
	}
	return snap, err
}

// The next group of a name may consume another topic, by the time that somebody who stood still removes the last.
func TestADeletionTakesNoGroupThatTookTheNameOfOneOfItsTopic(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	must(t, s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 1}))
	const key = "groups/g/meta"
	s.forge(t, key, metaOf("a", "one"))
	next := metaOf("b", "two")
	slow := registry.New(&swapping{Registry: s.handle.Registry, key: key, swap: func() { s.forge(t, key, next) }})
	must(t, topic.NewCatalog(s.log, slow, "").Delete(t.Context(), "a", ""))
	if is := s.said(t, key); is != next {
		t.Errorf("of the next group is left %q", is)
	}
}

// The next topic of a name may have groups by the time that a process which stood still ends the deletion of the last.
func TestADeletionTakesNoGroupOfTheNextTopic(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	must(t, s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 1}))
	group := metaOf("a", "one")
	slow := registry.New(&swapping{Registry: s.handle.Registry, key: "topics/a", swap: func() {}, before: "groups/", meanwhile: func() {
		must(t, s.catalog.Delete(t.Context(), "a", ""))
		must(t, s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 1}))
		s.forge(t, "groups/g/meta", group)
	}})
	must(t, topic.NewCatalog(s.log, slow, "").Delete(t.Context(), "a", ""))
	if is := s.said(t, "groups/g/meta"); is != group {
		t.Errorf("of the group is left %q", is)
	}
	if _, err := s.catalog.Get(t.Context(), "a"); err != nil {
		t.Errorf("of the next topic is left %v", err)
	}
}

// A deletion that is refused leaves the topic as it was, one that is half made too, and also when who asked for it
// has gone by then. After any other error nobody knows what was done: it stays begun.
func TestADeletionThatIsRefusedLeavesTheTopicAsItWas(t *testing.T) {
	t.Parallel()
	for _, state := range []topic.State{topic.Creating, topic.Ready, topic.Deleting} {
		for _, why := range []error{fault.Conflict, fault.Unavailable} {
			s := newSetup(t)
			s.put(t, "a", state, 1)
			ctx, leave := context.WithCancel(t.Context())
			err := s.catalog.DeleteUnless(ctx, "a", "", func(context.Context) error {
				if !strings.Contains(s.said(t, "topics/a"), `"state":"deleting"`) {
					t.Errorf("%s: it is asked for users that may still come", state)
				}
				leave()
				return why
			})
			want := state
			if !errors.Is(why, fault.Conflict) {
				want = topic.Deleting
			}
			if is := s.said(t, "topics/a"); !errors.Is(err, why) || !strings.Contains(is, fmt.Sprintf(`"state":%q`, want)) {
				t.Errorf("%s, %v: it ended with %v, and there is %s; expected it to be %s", state, why, err, is, want)
			}
		}
	}
}

// Of two who delete a topic the first can't take it back when the second has gone on with it, and has died.
func TestADeletionThatAnotherOneGoesOnWithIsNotTakenBack(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	must(t, s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 1}))
	err := s.catalog.DeleteUnless(t.Context(), "a", "", func(ctx context.Context) error {
		d := &dying{}
		d.left.Store(2) // to say so, and to remove the records
		second := topic.NewCatalog(commitlog.New(dyingLog{s.logs.Driver(), d}), registry.New(dyingRegistry{s.handle.Registry, d}), "")
		if err := second.Delete(ctx, "a", ""); !errors.Is(err, errKilled) {
			t.Errorf("the second ended with %v", err)
		}
		return fault.Conflict
	})
	if !errors.Is(err, fault.Conflict) {
		t.Errorf("it ended with %v", err)
	}
	if left, err := s.log.Topics(t.Context()); err != nil || len(left) > 0 {
		t.Fatalf("the records are there: %v, %v", left, err)
	}
	if _, err := s.catalog.Open(t.Context(), "a"); !errors.Is(err, fault.NotFound) {
		t.Errorf("a topic without its records: %v; expected NotFound", err)
	}
}

// losing is a registry that loses some writes of a definition, of which nobody hears then.
type losing struct {
	registrydriver.Registry
	lose func(value string) (lost, done bool)
}

func (r *losing) Apply(ctx context.Context, txns []registrydriver.Txn) ([]registrydriver.Result, error) {
	lost, done := false, true
	for _, t := range txns {
		for _, p := range t.Puts {
			if l, d := r.lose(string(p.Value)); l {
				lost, done = true, d
			}
		}
	}
	if !lost {
		return r.Registry.Apply(ctx, txns)
	}
	if done {
		if _, err := r.Registry.Apply(ctx, txns); err != nil {
			return nil, err
		}
	}
	return []registrydriver.Result{{Err: fault.Unknown}}, nil
}

// A topic whose deletion was refused would be deleted by whoever asks for it next, if it stayed marked.
func TestADeletionIsTakenBackThoughAWriteIsLost(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		s := newSetup(t)
		must(t, s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 1}))
		refused, lost := false, 0
		reg := &losing{Registry: s.handle.Registry, lose: func(string) (bool, bool) {
			if !refused || lost == 3 {
				return false, false
			}
			lost++
			return true, done
		}}
		err := topic.NewCatalog(s.log, registry.New(reg), "").DeleteUnless(t.Context(), "a", "", func(context.Context) error {
			refused = true
			return fault.Conflict
		})
		if !errors.Is(err, fault.Conflict) || lost == 0 {
			t.Errorf("it ended with %v, and %d writes were lost", err, lost)
		}
		if _, err := s.catalog.Open(t.Context(), "a"); err != nil {
			t.Errorf("lost when it was done %t: %v; expected the topic as it was", done, err)
		}
	}
}
