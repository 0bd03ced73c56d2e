package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
)

// What consume prints, produce --input json takes: nothing is lost on the way, whatever the bytes.
func TestMessageSurvivesItsLine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &ringfence.Message{Value: rapid.SliceOf(rapid.Byte()).Draw(t, "value"), Timestamp: time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "time"))}
		if rapid.Bool().Draw(t, "keyed") {
			m.Key = rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			m.Headers = append(m.Headers, ringfence.Header{Name: rapid.String().Draw(t, "name"), Value: rapid.SliceOf(rapid.Byte()).Draw(t, "header")})
		}
		line, err := m.Record().Line()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(line, []byte("\n")) != 1 || !json.Valid(line) {
			t.Fatalf("not one line of JSON: %q", line)
		}
		r, err := api.ParseRecord(line)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ringfence.MessageOf(r)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Key, m.Key) || (got.Key == nil) != (m.Key == nil) || !bytes.Equal(got.Value, m.Value) || !got.Timestamp.Equal(m.Timestamp) {
			t.Fatalf("got %v, want %v", got, m)
		}
		for i, h := range m.Headers {
			if strings.ToValidUTF8(h.Name, "\ufffd") != got.Headers[i].Name || !bytes.Equal(h.Value, got.Headers[i].Value) {
				t.Fatalf("header %d is %v, want %v", i, got.Headers[i], h)
			}
		}
	})
}

func TestMessageOfRefusesTextsInNoEncoding(t *testing.T) {
	t.Parallel()
	key := "%"
	for _, r := range []*api.Record{
		{Value: "%", ValueEncoding: "base64"}, {Value: "a", ValueEncoding: "rot13"}, {Value: "a", Timestamp: "yesterday"},
		{Value: "a", Key: &key, KeyEncoding: "base64"}, {Headers: []api.Header{{Name: "n", Value: "%", ValueEncoding: "base64"}}},
	} {
		if m, err := ringfence.MessageOf(r); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("%+v: %v, %v; want ErrInvalid", r, m, err)
		}
	}
}
