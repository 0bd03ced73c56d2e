package pulsarlog_test

import (
	"context"
	"log"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/commitlog/pulsarlog"
)

// The code of docs/guide/pulsar.md, as it stands there.
func ExampleOpenURL() {
	ctx := context.Background()
	rf, err := ringfence.Open(ctx, ringfence.Config{
		Log: "pulsar://h1:6650/public/orders", Registry: "postgres://rf@db/rf",
		Backends: append(backends.All(), ringfence.Backend{Scheme: "pulsar", OpenLog: pulsarlog.OpenURL}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rf.Close()
}
