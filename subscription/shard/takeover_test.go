package shard

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/memtest"
)

var forgedFinals = []string{
	``,
	`[]`,
	`{"at":1,"positions":[{"next":-1}]}`,
	`{"at":1,"positions":[{"next":5,"done":[[9,7]]}]}`,
}

// What is accepted as the end of a journal is one that a shard can have written, and comes back.
func FuzzFinal(f *testing.F) {
	b, err := json.Marshal(Final{
		At: 9, Positions: []protocol.Position{{Next: 4, Done: []protocol.Range{{6, 8}}}, {Partition: 1, Next: 9}},
		Next: json.RawMessage(`{"set":2,"id":"abcdefgh","shards":4,"state":"making","starts":[-1,7]}`),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	for _, forged := range forgedFinals {
		f.Add([]byte(forged))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var final Final
		var err error
		memtest.AtMost(t, 64*len(value)+16<<10, value, func() { final, err = decodeFinal(value) })
		if err != nil {
			if !errors.Is(err, fault.Corrupt) {
				t.Fatalf("%v; expected fault.Corrupt", err)
			}
			return
		}
		b, err := json.Marshal(final)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeFinal(b)
		if err != nil || again.At != final.At || len(again.Positions) != len(final.Positions) {
			t.Fatalf("%+v comes back as %+v, %v", final, again, err)
		}
		if protocol.CheckPositions(final.Positions) != nil {
			t.Fatalf("%s is accepted", value)
		}
	})
}
