package core

import "testing"

// A dead letter is appended once more while an order for it comes. An heir that read the journal from the
// copy on would not know of the order.
func TestAnOrderIsNotForgottenByACopyThatIsUnderWay(t *testing.T) {
	t.Parallel()
	for _, verb := range []Verb{Redrive, Discard} {
		s, id := owner(), ID{Origin: Origin{Offset: 5}}
		dead := Record{Kind: Dead, By: s.cfg.Tenure, ID: id, Key: []byte("k"), Blocking: true, Reason: Permanent}
		fence := Record{Kind: Fence, By: s.cfg.Tenure}
		journal := []Record{fence, dead, fence, {Kind: Order, Verb: verb, IDs: []ID{id}}, fence, dead}
		for place := range journal {
			if r := &journal[place]; r.Kind != Order {
				r.Seq = uint64(place + 1)
			}
			if place > 0 { // owner has read the first
				s.Read(int64(place), &journal[place])
			}
		}
		from := s.From([]Next{{Offset: 6}})
		heir := New(Config{Set: "s", From: from})
		for place := from; place < int64(len(journal)); place++ {
			heir.Read(place, &journal[place])
		}
		if it, ok := heir.Item(id.Origin); !ok || it.Order != verb {
			t.Errorf("an heir from %d knows of order %d; expected %d: %+v", from, it.Order, verb, it)
		}
	}
}
