package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
)

func TestRecordLineIsTheContract(t *testing.T) {
	t.Parallel()
	m := &ringfence.Message{
		Topic: "payments", Storage: 0, Partition: 3, Offset: 42, Epoch: 7, Attempt: 1,
		Key: []byte("acct-1"), Value: []byte("<+10 & more>"), Timestamp: time.UnixMilli(1767225600123),
		Headers: []ringfence.Header{{Name: "source", Value: []byte("web")}, {Name: "source", Value: []byte{0xff}}},
	}
	got, err := RecordLine(m)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"topic":"payments","storage":0,"partition":3,"offset":42,"epoch":7,"key":"acct-1","value":"<+10 & more>",` +
		`"timestamp":"2026-01-01T00:00:00.123Z","headers":[{"name":"source","value":"web"},{"name":"source","value":"/w==","value_encoding":"base64"}]}` + "\n"
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// What consume prints, produce --input json takes: nothing is lost on the way, whatever the bytes.
func TestRecordsSurviveTheirLine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &ringfence.Message{Value: rapid.SliceOf(rapid.Byte()).Draw(t, "value"), Timestamp: time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "time"))}
		if rapid.Bool().Draw(t, "keyed") {
			m.Key = rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			m.Headers = append(m.Headers, ringfence.Header{Name: rapid.String().Draw(t, "name"), Value: rapid.SliceOf(rapid.Byte()).Draw(t, "header")})
		}
		line, err := RecordLine(m)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(line, []byte("\n")) != 1 || !json.Valid(line) {
			t.Fatalf("not one line of JSON: %q", line)
		}
		got, err := ParseRecord(line)
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

func TestRecordLinesThatAreNoRecordsAreRefused(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		``, `1`, `{"value":"a"} {"value":"b"}`, `{"valeu":"a"}`, `{"value":"%","value_encoding":"base64"}`,
		`{"value":"\ud800"}`, `{"value":"\\\udc00\ud800"}`, `{"value":"a","key":"\uD83D\u0041"}`, `{"value":"a","headers":[{"name":"\ud83d\ude00\udfff"}]}`,
		"{\"value\":\"\xff\"}", `{"\ud800":"a"}`,
		`{"value":"a","value_encoding":"rot13"}`, `{"value":"a","timestamp":"yesterday"}`, `{"value":"a","key":"%","key_encoding":"base64"}`,
	} {
		if m, err := ParseRecord([]byte(line)); err == nil {
			t.Errorf("%s was taken for %v", line, m)
		}
	}
}

// What is escaped in pairs is text, and so is what only looks like an escape.
func TestEscapedTextIsTaken(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"value":"\ud83d\ude00\uD83D\uDE00\u0041\ufffd"}`: "\U0001f600\U0001f600A\ufffd",
		`{"value":"\\ud800 \\\u0041 \n\"ud800"}`:           "\\ud800 \\A \n\"ud800",
		"{\"value\":\"\ufffd\"}":                           "\ufffd",
	} {
		if m, err := ParseRecord([]byte(line)); err != nil || string(m.Value) != want {
			t.Errorf("%s: %q, %v; expected %q", line, m.Value, err, want)
		}
	}
}

func TestWhatIsWrongWithALineIsSaidInItsOwnWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`null`: "found null", `[]`: "found a JSON array", `{"value":5}`: `"value" is a JSON number`, `{"value":`: "ends within", `{"value":"\ud800"}`: `\ud800 is half of a character`, ``: "is empty",
	} {
		m, err := ParseRecord([]byte(line))
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Record") {
			t.Errorf("%s: %v, %v; expected %q", line, m, err, want)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"topic":"t","key":null,"value":"a","headers":[{"name":"n","value":"v"}],"timestamp":"2026-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := ParseRecord(line)
		if err != nil {
			return
		}
		if _, err := RecordLine(&m); err != nil {
			t.Error(err)
		}
	})
}
