package shard

import "github.com/ringfence/ringfence/subscription/core"

// SetTerms makes the shard go by other terms. They judge attempts and filter records from then on: what is parked or
// held stays where it is, a pause that has begun lasts as long as it was to, and a dead letter stays one.
func (s *Shard) SetTerms(t Terms) {
	s.terms.Store(&t)
	s.do(func(st *core.State) { st.SetPolicy(t.DeadLetters, t.Retry.Longest().Milliseconds()) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine != nil {
		s.engine.SetRetry(t.Retry)
	}
}
