package subscription

import (
	"errors"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

func TestEditKeepsKeyAndHeadersAndNamesTheDeadLetter(t *testing.T) {
	t.Parallel()
	e := entry{
		Item:   core.Item{ID: core.ID{Origin: core.Origin{Offset: 5}}, Key: []byte("k")},
		Record: commitlog.Record{Key: []byte("k"), Value: []byte("bad"), Headers: []commitlog.Header{{Name: "h", Value: []byte("1")}}},
	}
	for range 2 { // also when that was an edited record itself
		rec, err := e.edit([]byte("good"))
		if err != nil || string(rec.Key) != "k" || string(rec.Value) != "good" || len(rec.Headers) != 2 || rec.Headers[1].Name != Edited || string(rec.Headers[1].Value) != "0.0.5.0" {
			t.Fatalf("%+v, %v", rec, err)
		}
		e.Record = rec
	}
	if _, err := e.edit(make([]byte, commitlog.MaxRecordBytes)); !errors.Is(err, fault.Invalid) {
		t.Errorf("a value that is too large: %v", err)
	}
}
