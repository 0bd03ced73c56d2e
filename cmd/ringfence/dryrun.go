package main

import (
	"context"
	"net/url"
	"slices"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	commitlogdriver "github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// rehearsal opens a client on the stores of rf that can be told to change coordination and does
// not: what a command would do is found out by the code that would do it.
func (a *app) rehearsal(ctx context.Context, rf *ringfence.Client) (*ringfence.Client, error) {
	c := a.clientConfig()
	c.Log, c.Registry = "rehearsal:", "rehearsal:"
	c.Backends = append(slices.Clip(c.Backends), ringfence.Backend{
		Scheme:  "rehearsal",
		OpenLog: func(context.Context, *url.URL, commitlogdriver.Options) (*commitlog.Log, error) { return rf.Log(), nil },
		OpenRegistry: func(context.Context, *url.URL, driver.Options) (*registry.Registry, error) {
			return registry.New(unwritten{rf.Registry()}), nil
		},
	})
	return ringfence.Open(ctx, c) // not to be closed: its stores are those of rf
}

// unwritten is a registry that accepts every write and keeps none.
type unwritten struct{ driver.Registry }

func (unwritten) Apply(_ context.Context, txns []driver.Txn) ([]driver.Result, error) {
	results := make([]driver.Result, len(txns))
	for i := range txns {
		results[i].Versions = make([]driver.Version, len(txns[i].Puts))
	}
	return results, nil
}
