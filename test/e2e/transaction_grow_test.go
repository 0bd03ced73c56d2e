package e2e_test

import "testing"

// A storage topic is finished for a group whose handlers commit when its records are; what lies
// behind the last of them is for the members to notice, whoever they are by then.
func TestATopicThatGrowsIsConsumedByTransactionsOnceAndInOrder(t *testing.T) {
	t.Parallel()
	const part, keys = 60, 6
	s, rf := newShop(t, 2, part, keys)
	a := consume(t, rf, "orders", "g", s.handle, transactional("a"))
	eventually(t, "the first effects", func() bool { _, n := s.sold(t); return n > 0 })
	for grown := range 2 {
		_, err := rf.Admin().AddStorage(t.Context(), "orders", 4<<grown)
		must(t, err)
		_, err = rf.Admin().SwitchProduce(t.Context(), "orders")
		must(t, err)
		produce(t, rf, "orders", part*(grown+1), part, keys)
	}
	b := consume(t, s.open(t), "orders", "g", s.handle, transactional("b"))
	eventually(t, "half of the effects", func() bool { _, n := s.sold(t); return n >= part*3/2 })
	a.leave(t)
	s.await(t, rf)
	b.leave(t)
	s.exactly(t, 3*part, keys)
}
