package logtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/commitlog"
)

var topicTests = []test{
	{"Topics/CreateIsIdempotentAndChecksTheShape", nil, createTwice},
	{"Topics/ConcurrentCreatesAgree", nil, createConcurrently},
	{"Topics/ListIsSorted", nil, listTopics},
	{"Topics/AMissingTopicIsNotFound", nil, missingTopic},
	{"Topics/ConfigIsKept", nil, keepConfig},
	{"Topics/ARetentionThatIsChangedIsKept", nil, alterRetention},
	{"Topics/ACardIsThatOfTheMaker", nil, keepCard},
	{"Topics/ACardIsDecidedWithTheTopic", nil, createCards},
	{"Topics/ARecreatedTopicHasItsOwnCard", nil, recreateCard},
	{"Topics/DeleteEndsOpenHandles", strictDelete, deleteOpen},
	{"Topics/ARecreatedTopicIsEmpty", strictDelete, recreate},
}

func createTwice(e *env) {
	l := e.log()
	c := commitlog.TopicConfig{Name: topicName, Partitions: 3}
	e.must(l.CreateTopic(e.ctx, c))
	e.must(l.CreateTopic(e.ctx, c))
	c.Partitions = 4
	e.wantIs(l.CreateTopic(e.ctx, c), commitlog.ErrExists)
	if got := e.openTopic(l).Config().Partitions; got != 3 {
		e.Errorf("the topic has %d partitions after a refused create; want 3", got)
	}
}

func createConcurrently(e *env) {
	logs := []*commitlog.Log{e.log()}
	for !e.h.Features.SingleLog && len(logs) < 3 {
		logs = append(logs, e.log())
	}
	var wg sync.WaitGroup
	errs := make([]error, 4*len(logs))
	for i := range errs {
		wg.Go(func() {
			// Two shapes: one of them wins, for everybody.
			errs[i] = logs[i%len(logs)].CreateTopic(e.ctx, commitlog.TopicConfig{Name: topicName, Partitions: 1 + i%2})
		})
	}
	wg.Wait()
	won := e.openTopic(logs[0]).Config().Partitions
	for i, err := range errs {
		if 1+i%2 == won && err != nil {
			e.Errorf("create with the shape that won: %v", err)
		} else if 1+i%2 != won && !errors.Is(err, commitlog.ErrExists) {
			e.Errorf("create with the shape that lost: %v; want ErrExists", err)
		}
	}
}

func listTopics(e *env) {
	l := e.log()
	for _, name := range []string{"b", "a.1", "A", "a-0", "gone"} {
		e.must(l.CreateTopic(e.ctx, commitlog.TopicConfig{Name: name, Partitions: 1}))
	}
	e.must(l.DeleteTopic(e.ctx, "gone"))
	want := []string{"A", "a-0", "a.1", "b"}
	for end := time.Now().Add(time.Minute); ; {
		list, err := l.Topics(e.ctx)
		e.must(err)
		var names []string
		for _, c := range list {
			names = append(names, c.Name)
		}
		if slices.Equal(names, want) {
			return
		}
		if !e.h.Features.EventualLists || time.Now().After(end) {
			e.Fatalf("topics %v; want %v", names, want)
		}
	}
}

func missingTopic(e *env) {
	l := e.log()
	e.wantIs(errOf(l.Topic(e.ctx, "missing")), commitlog.ErrNotFound)
	e.wantIs(l.DeleteTopic(e.ctx, "missing"), commitlog.ErrNotFound)
}

func keepConfig(e *env) {
	c := commitlog.TopicConfig{Name: topicName, Partitions: 5, RetentionBytes: 1 << 40, RetentionAgeMillis: 1 << 40}
	l := e.open()
	e.must(l.CreateTopic(e.ctx, c))
	if got := e.openTopic(l).Config(); got != c {
		e.Errorf("config %+v; want %+v", got, c)
	}
	e.must(l.Close())
	if got := e.openTopic(e.log()).Config(); got != c {
		e.Errorf("config after reopening %+v; want %+v", got, c)
	}
}

func alterRetention(e *env) {
	c := commitlog.TopicConfig{Name: topicName, Partitions: 2, RetentionAgeMillis: 1 << 40}
	l := e.open()
	e.must(l.CreateTopic(e.ctx, c))
	open := e.openTopic(l)
	first := e.add(open, 1, "kept")
	for _, want := range []commitlog.TopicConfig{
		{RetentionBytes: 1 << 40},
		{RetentionBytes: 1 << 41, RetentionAgeMillis: 1 << 41, RetentionForce: true},
		{RetentionAgeMillis: 1 << 41},
		{},
		{RetentionBytes: 1 << 42, RetentionAgeMillis: 1 << 42},
	} {
		want.Name, want.Partitions = topicName, 2
		e.must(l.AlterTopic(e.ctx, want))
		e.must(l.CreateTopic(e.ctx, c)) // is there, and does not take its retention back
		e.wantConfig("the open handle", want, open.Config)
		e.wantConfig("the list", want, func() commitlog.TopicConfig { return e.onlyTopic(l) })
		c = c.WithRetentionOf(commitlog.TopicConfig{RetentionBytes: 5})
	}
	last := open.Config()
	c.Partitions = 3
	e.wantIs(l.AlterTopic(e.ctx, c), commitlog.ErrExists)
	e.wantIs(l.AlterTopic(e.ctx, commitlog.TopicConfig{Name: "missing", Partitions: 2}), commitlog.ErrNotFound)
	e.wantIs(l.AlterTopic(e.ctx, commitlog.TopicConfig{Name: topicName, Partitions: 2, RetentionBytes: -1}), commitlog.ErrInvalid)
	e.must(l.Close())
	l = e.log()
	again := e.openTopic(l)
	e.wantConfig("the list after reopening", last, func() commitlog.TopicConfig { return e.onlyTopic(l) })
	e.wantValues(e.upTo(again, 1, first, first+1), "kept")
}

// longCard is as long as a card can be, in what each encoding finds hard.
var longCard = strings.Repeat("{\"é\\\x00\n}", commitlog.MaxCardBytes/8)

func keepCard(e *env) {
	c := commitlog.TopicConfig{Name: topicName, Partitions: 2, Card: longCard}
	l := e.open()
	e.must(l.CreateTopic(e.ctx, c))
	open := e.openTopic(l)
	other := c
	for _, other.Card = range []string{"another", ""} {
		e.must(l.CreateTopic(e.ctx, other))
		other.RetentionBytes = 1 << 40
		e.must(l.AlterTopic(e.ctx, other))
	}
	c.RetentionBytes = 1 << 40
	e.wantConfig("the open handle", c, open.Config)
	e.wantConfig("the list", c, func() commitlog.TopicConfig { return e.onlyTopic(l) })
	for _, bad := range []string{longCard + "x", "\xff"} {
		e.wantIs(l.CreateTopic(e.ctx, commitlog.TopicConfig{Name: "bad", Partitions: 1, Card: bad}), commitlog.ErrInvalid)
	}
	e.must(l.Close())
	l = e.log()
	e.wantConfig("the list after reopening", c, func() commitlog.TopicConfig { return e.onlyTopic(l) })
	e.must(l.CreateTopic(e.ctx, other))
	e.wantConfig("a handle after reopening", c, e.openTopic(l).Config)
}

// createCards makes one topic by many makers with a card each: all see the same card, from the first look on.
func createCards(e *env) {
	logs := []*commitlog.Log{e.log()}
	for !e.h.Features.SingleLog && len(logs) < 3 {
		logs = append(logs, e.log())
	}
	var wg sync.WaitGroup
	seen := make([]string, 2*len(logs))
	for i := range seen {
		wg.Go(func() {
			l := logs[i%len(logs)]
			if err := l.CreateTopic(e.ctx, commitlog.TopicConfig{Name: topicName, Partitions: 1, Card: fmt.Sprint("card ", i)}); err != nil {
				e.Error(err)
				return
			}
			t, err := l.Topic(e.ctx, topicName)
			if err != nil {
				e.Error(err)
				return
			}
			seen[i] = t.Config().Card
		})
	}
	wg.Wait()
	want := e.onlyTopic(logs[0]).Card
	for i, got := range seen {
		if got != want || want == "" {
			e.Errorf("maker %d sees the card %q; the list has %q", i, got, want)
		}
	}
}

func recreateCard(e *env) {
	l := e.log()
	c := commitlog.TopicConfig{Name: topicName, Partitions: 1}
	for _, c.Card = range []string{"first", "", "second", "first"} {
		e.must(l.CreateTopic(e.ctx, c))
		e.wantConfig("the topic", c, e.openTopic(l).Config)
		e.must(l.DeleteTopic(e.ctx, topicName))
	}
}

// wantConfig waits for a configuration: servers of a cluster learn of a change one after another.
func (e *env) wantConfig(where string, want commitlog.TopicConfig, get func() commitlog.TopicConfig) {
	e.Helper()
	got := get()
	for begun := time.Now(); got != want && time.Since(begun) < 2*time.Minute; got = get() {
		time.Sleep(20 * time.Millisecond)
	}
	if got != want {
		e.Errorf("%s has %+v; want %+v", where, got, want)
	}
}

// onlyTopic is the configuration of the only topic of a log.
func (e *env) onlyTopic(l *commitlog.Log) commitlog.TopicConfig {
	e.Helper()
	list, err := l.Topics(e.ctx)
	e.must(err)
	if len(list) != 1 {
		e.Fatalf("the topics are %+v; want one", list)
	}
	return list[0]
}

func deleteOpen(e *env) {
	l, a, b := e.two(2)
	e.add(a, 0, "x")
	waiting := make(chan error, 1)
	go func() { waiting <- b.Wait(e.ctx, 1, 0) }()
	e.must(l.DeleteTopic(e.ctx, topicName))
	e.wantIs(<-waiting, commitlog.ErrNotFound)
	for name, t := range map[string]*commitlog.Topic{"of the log that deleted it": a, "of the other log": b} {
		if e.wantAll(t, commitlog.ErrNotFound); e.Failed() {
			e.Fatalf("with the handle %s", name)
		}
		e.must(t.Close())
	}
}

func recreate(e *env) {
	l, a, b := e.two(2)
	e.add(a, 0, "old")
	e.must(l.DeleteTopic(e.ctx, topicName))
	e.must(l.CreateTopic(e.ctx, commitlog.TopicConfig{Name: topicName, Partitions: 1}))
	fresh := e.openTopic(l)
	if got := e.all(fresh, 0); len(got) != 0 {
		e.Errorf("a new topic has the records of the deleted one: %q", values(got))
	}
	first := e.add(fresh, 0, "new")
	e.wantIs(errOf(b.Append(e.ctx, 0, records("late"), nil)), commitlog.ErrNotFound)
	e.wantValues(e.upTo(fresh, 0, first, first+1), "new")
	if got := fmt.Sprint(values(e.all(fresh, 0))); got != "[new]" {
		e.Errorf("the new topic has %s", got)
	}
}
