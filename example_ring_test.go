package ringfence_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ringfence/ringfence"
)

// Every process gets every event; the one whose key it is handles it.
func ExampleClient_JoinRing() {
	ctx := context.Background()
	rf, err := ringfence.Open(ctx, ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		log.Fatal(err)
	}
	defer rf.Close()

	last := int64(0)
	members := []string{"a", "b"} // two processes, in real life
	for _, id := range members {
		r, err := rf.JoinRing(ctx, "webhooks", &ringfence.RingOptions{Member: id})
		if err != nil {
			log.Fatal(err)
		}
		defer r.Close(ctx)
		if err := r.WaitEstablished(ctx); err != nil {
			log.Fatal(err)
		}
		if mine, epoch := r.ShouldHandle("acct-2"); mine {
			fmt.Println(id, "handles acct-2, under a higher epoch than before:", epoch > last)
			last = epoch
		}
	}

	for _, key := range []string{"acct-1", "acct-2", "acct-3"} {
		o, err := rf.Admin().FindRingOwner(ctx, "webhooks", key)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(key, "belongs to", o.Owner)
	}
	// Output:
	// a handles acct-2, under a higher epoch than before: true
	// b handles acct-2, under a higher epoch than before: true
	// acct-1 belongs to b
	// acct-2 belongs to b
	// acct-3 belongs to a
}
