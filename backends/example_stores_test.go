package backends_test

import (
	"context"
	"log"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backends"
)

// The code of README, as it stands there.
func ExampleAll() {
	ctx := context.Background()
	rf, err := ringfence.Open(ctx, ringfence.Config{
		Log: "kafka://h1:9092,h2:9092", Registry: "postgres://rf@db/rf",
		Backends: backends.All(), // import "github.com/ringfence/ringfence/backends"
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rf.Close()
}
