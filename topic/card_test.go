package topic_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

func TestStorageTopicHasCardOfItsTopic(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	must(t, s.catalog.Create(t.Context(), "orders", topic.Config{Partitions: 2, Router: topic.RangeRouter, Internal: "subscription audit"}))
	storage, err := s.log.Topics(t.Context())
	must(t, err)
	card, err := topic.DecodeCard(storage[0].Name, storage[0].Card)
	want := &topic.Card{Format: 1, Router: topic.RangeRouter, Hash: topic.XXHash64, Partitions: []int{2}, Internal: "subscription audit"}
	if err != nil || !reflect.DeepEqual(card, want) {
		t.Errorf("the card is %+v, %v; expected %+v", card, err, want)
	}
	for text, kind := range map[string]error{`{"format":1}`: fault.Corrupt, `{`: fault.Corrupt, `{"format":2,"partitions":[1]}`: fault.Newer} {
		if c, err := topic.DecodeCard("t..0.a", text); !errors.Is(err, kind) {
			t.Errorf("card %s: %+v, %v; expected %v", text, c, err, kind)
		}
	}
}
