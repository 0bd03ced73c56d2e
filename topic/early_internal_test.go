package topic

import (
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// A process sees that the topic was switched while a record is still under way to the old storage topic.
// A producer that began in the new one sends at that moment: its record waits until the other one was
// refused and carried on, and comes behind it.
func TestAProducerOfTheNextStorageTopicWaitsForWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	log, reg := commitlog.New(memlog.NewStore(nil).Driver()), memregistry.New()
	t.Cleanup(func() { _ = reg.Close() })
	c := NewCatalog(log, reg, "")
	if err := c.Create(t.Context(), "t", Config{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	tp, err := c.Open(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		at  Position
		err error
	}
	before, after := make(chan answer, 1), make(chan answer, 1)
	say := func(ch chan answer) func(Position, error) {
		return func(at Position, err error) { ch <- answer{at, err} }
	}
	// The record is in the hands of the log, which has not answered.
	g := tp.gen.Load()
	ticket, ok := g.begin()
	if !ok {
		t.Fatal("a new topic takes no records")
	}
	under := &message{t: tp, g: g, ticket: ticket, key: []byte("k"), partition: AnyPartition, recs: []commitlog.Record{{Key: []byte("k"), Value: []byte("before")}}, done: say(before)}
	if _, err := c.AddStorage(t.Context(), "t", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Switch(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	// The definition is read, and the generation goes on for a moment.
	old := tp.view.Load()
	v, _, err := tp.look(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	if adopted, err := tp.adopt(old, v); !adopted || err != nil {
		t.Fatal(adopted, err)
	}
	tp.ProduceAsync(t.Context(), AnyPartition, commitlog.Record{Key: []byte("k"), Value: []byte("after")},
		&ProduceOptions{Producer: commitlog.Producer{ID: 7}, Home: 1}, say(after))
	select {
	case a := <-after:
		t.Fatalf("it did not wait: %+v, %v", a.at, a.err)
	default:
	}
	g.refuse(under, commitlog.ErrSealed)
	first, second := <-before, <-after
	if first.err != nil || second.err != nil || first.at.Storage != 1 || second.at.Storage != 1 || second.at.Offset <= first.at.Offset {
		t.Errorf("the record that was under way is at %+v (%v), the one behind it at %+v (%v)", first.at, first.err, second.at, second.err)
	}
	if err := tp.Close(); err != nil {
		t.Error(err)
	}
}
