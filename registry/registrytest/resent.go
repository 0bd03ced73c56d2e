package registrytest

import (
	"strconv"
	"testing"

	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/registry"
)

// Resent is for stores that tell what they send: the requests of a call that writes checkpoints,
// sent again as benchmarks do, do the same work at the server, fences included.
func Resent(t *testing.T, r *registry.Registry) {
	s, p := &suite{T: t}, &Process{Registry: r}
	txns := make([]registry.Txn, 250) // of several requests, where one takes fewer
	owner := s.put(p, "owner", "me")
	for i := range txns {
		txns[i] = registry.Txn{
			Checks: []registry.Check{{Key: "owner", Version: owner}},
			Puts:   []registry.Put{{Key: "checkpoints/" + strconv.Itoa(i), Value: []byte("mine")}},
			Quiet:  true,
		}
	}
	apply := func(txns []registry.Txn, requests *hook.Requests) {
		results, err := p.Apply(requests.Record(s.ctx()), txns)
		s.ok(err)
		for _, x := range results {
			s.ok(x.Err)
		}
	}
	var requests hook.Requests
	apply(txns, new(hook.Requests)) // makes them
	apply(txns, &requests)          // updates them, as checkpoints are as a rule
	if requests.Len() == 0 {
		t.Fatal("it tells of no request")
	}
	others := make([]registry.Txn, len(txns))
	for i := range txns {
		others[i] = registry.Txn{Puts: []registry.Put{{Key: txns[i].Puts[0].Key, Value: []byte("another's")}}, Quiet: true}
	}
	written := func() (n int) {
		apply(others, new(hook.Requests))
		s.ok(requests.Send(s.ctx()))
		snap, err := p.List(s.ctx(), "checkpoints/")
		s.ok(err)
		for _, e := range snap.Entries {
			if string(e.Value) == "mine" {
				n++
			}
		}
		return n
	}
	for range 2 {
		if n := written(); n != len(txns) {
			t.Fatalf("%d of %d checkpoints were written", n, len(txns))
		}
	}
	s.put(p, "owner", "somebody else")
	if n := written(); n > 0 {
		t.Errorf("%d checkpoints were written though their check fails", n)
	}
}
