package api

import (
	"strings"
	"testing"
)

func TestRecordLineIsTheContract(t *testing.T) {
	t.Parallel()
	key := "acct-1"
	r := &Record{
		Topic: "payments", Partition: 3, Offset: 42, Epoch: 7, Key: &key, Value: "<+10 & more>", Timestamp: Millis(1767225600123),
		Headers: []Header{{Name: "source", Value: "web"}, {Name: "source", Value: "/w==", ValueEncoding: "base64"}},
	}
	got, err := r.Line()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"topic":"payments","storage":0,"partition":3,"offset":42,"epoch":7,"key":"acct-1","value":"<+10 & more>",` +
		`"timestamp":"2026-01-01T00:00:00.123Z","headers":[{"name":"source","value":"web"},{"name":"source","value":"/w==","value_encoding":"base64"}]}` + "\n"
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestParseRecordRefusesOtherLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		``: "is empty", `1`: "found a JSON number", `{"value":"a"} {"value":"b"}`: "found more", `{"valeu":"a"}`: `unknown field "valeu"`,
		`{"value":"\ud800"}`: `\ud800 is half of a character`, `{"value":"\\\udc00\ud800"}`: "half of a character",
		`{"value":"a","key":"\uD83D\u0041"}`: "half of a character", `{"value":"a","headers":[{"name":"\ud83d\ude00\udfff"}]}`: "half of a character",
		"{\"value\":\"\xff\"}": "no UTF-8", `{"\ud800":"a"}`: "", `null`: "found null", `[]`: "found a JSON array", `{"value":5}`: `"value" is a JSON number`, `{"value":`: "ends within",
	} {
		r, err := ParseRecord([]byte(line))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Record") {
			t.Errorf("%s: %v, %v; want an error with %q", line, r, err, want)
		}
	}
}

// What is escaped in pairs is text, and so is what only looks like an escape.
func TestParseRecordTakesEscapedText(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"value":"\ud83d\ude00\uD83D\uDE00\u0041\ufffd"}`: "\U0001f600\U0001f600A\ufffd",
		`{"value":"\\ud800 \\\u0041 \n\"ud800"}`:           "\\ud800 \\A \n\"ud800",
		"{\"value\":\"\ufffd\"}":                           "\ufffd",
	} {
		if r, err := ParseRecord([]byte(line)); err != nil || r.Value != want {
			t.Errorf("%s: %+v, %v; want %q", line, r, err, want)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"topic":"t","key":null,"value":"a","headers":[{"name":"n","value":"v"}],"timestamp":"2026-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := ParseRecord(line)
		if err != nil {
			return
		}
		again, err := r.Line()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseRecord(again); err != nil {
			t.Errorf("%s is written as %s: %v", line, again, err)
		}
	})
}
