package history_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/history"
)

// A history that processes wrote, one of which was killed: its events come in the order of time,
// as many as there are whole lines, or it is said to be damaged. The judge takes whatever it says.
func FuzzStream(f *testing.F) {
	var b bytes.Buffer
	w := history.NewWriter(&b)
	for _, e := range []history.Event{
		{Kind: history.Produced, Key: "k", Offset: 1, Value: 7},
		{Kind: history.Owned, Member: "a", Epoch: 1},
		{Kind: history.Started, Member: "a", Epoch: 1, Key: "k", Offset: 1, Value: 7},
	} {
		if err := w.Add(e); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:b.Len()-5])
	f.Add([]byte("{\"at\":5}\n{\"at\":-5}\n\n"))
	f.Add([]byte("{\"kind\":\"committed\",\"unit\":-1,\"epoch\":-1,\"positions\":[{\"next\":-9}]}\n"))
	f.Add([]byte("{\"kind\":\"produced\",\"offset\":-6}\n{\"kind\":\"started\",\"offset\":9223372036854775807}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := history.NewReader(bytes.NewReader(text))
		lines, last := bytes.Count(text, []byte("\n")), int64(0)
		for n := 0; ; n++ {
			e, err := r.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, fault.Corrupt) {
					t.Fatalf("an error without a kind: %v", err)
				}
				if errors.Is(err, io.EOF) && n != lines {
					t.Fatalf("%d events of %d lines", n, lines)
				}
				break
			}
			if n > 0 && e.At < last {
				t.Fatalf("the event at %d comes after that at %d", e.At, last)
			}
			last = e.At
		}
		report, err := history.Check(history.Config{}, false, bytes.NewReader(text), bytes.NewReader(nil))
		if err == nil && report == nil {
			t.Fatal("neither a report nor an error")
		}
	})
}
