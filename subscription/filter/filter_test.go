package filter

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

func sample() *commitlog.Record {
	return &commitlog.Record{
		Key: []byte("acct-42"), Timestamp: 1_700_000_000_000,
		Value:   []byte(`{"amount": 120.5, "id": 9007199254740993, "tags": ["a","b"], "who": {"name": "Ada"}, "off": false, "items": [{"sku":"x","n":2}]}`),
		Headers: []commitlog.Header{{Name: "region", Value: []byte("us")}, {Name: "region", Value: []byte("eu")}},
	}
}

func TestAnExpressionChoosesRecords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`headers.region == "eu"`:                                        true,
		`headers["region"] == "us"`:                                     false,
		`headers.none == ""`:                                            true, // what is not there is ""
		`"region" in headers and not ("none" in headers)`:               true,
		`key startsWith "acct-" && value.amount > 100`:                  true,
		`value.amount >= 121`:                                           false,
		`value.id == 9007199254740993`:                                  true,
		`value.id == 9007199254740992`:                                  false,
		`"b" in value.tags`:                                             true,
		`value.who.name matches "^A.a$"`:                                true,
		`(value.who?.age ?? 0) > 17`:                                    false,
		`value.missing?.deep == nil`:                                    true,
		`any(value.items, .sku == "x" and .n > 1)`:                      true,
		`count(value.tags, # == "a") == 1 and all(value.tags, # < "c")`: true,
		`topic == "payments" and partition == 3 and offset == 7`:        true,
		`timestamp > 1600000000000`:                                     true,
		`value.off ? false : len(value.tags) == 2`:                      true,
		`lower(key) contains "ACCT" or upper(key) endsWith "-42"`:       true,
		`value.amount * 2 - 1 == 240`:                                   true,
	} {
		f, err := Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := f.Match(sample(), Origin{"payments", 3, 7}); err != nil || got != want {
			t.Errorf("%s: %v, %v; expected %v", text, got, err, want)
		}
	}
}

func TestWhatIsNoFilterIsRefused(t *testing.T) {
	t.Parallel()
	for text, part := range map[string]string{
		"":                                   "expected an expression",
		"  ":                                 "expected an expression",
		"key ==":                             "unexpected token: the expression ends too early",
		"key":                                "expected bool",
		"kye == 'a'":                         "unknown name kye",
		"attempts > 3":                       "unknown name attempts (1:1); there are key, headers, value, ", // only of dead letters
		`key + key == "aa"`:                  "operator + is not allowed",
		`1 in 1..1000000000`:                 "operator .. is not allowed",
		`key matches key`:                    "expected a text in quotes",
		`key matches "("`:                    "missing closing )",
		`let a = key; a == ""`:               "is not allowed",
		`len(map(value, #)) > 1`:             "map is not allowed",
		`repeat(key, 1000000000) == ""`:      "repeat is not allowed",
		`key.foo() == 1`:                     "can't be called",
		`any(value, any(#, any(#, # == 1)))`: "within another loop",
		`{"a": 1}.a == 1`:                    "is not allowed",
		`key[1:2] == "a"`:                    "is not allowed",
		`key == "a"; true`:                   "is not allowed",
		strings.Repeat("(", MaxBytes+1):      "expected at most 2048",
		strings.Repeat("(", MaxBytes):        "unexpected token",
	} {
		f, err := Compile(text)
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v, %v; expected an error with %q", text, f, err, part)
		}
	}
}

func TestWhatCannotBeComputedIsAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`value.amount > 1`, `value.a.b == 1`, `value`, `any(value, # == 1)`, `len(value) > 1`} {
		f, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		r := sample()
		r.Value = []byte("no JSON")
		if got, err := f.Match(r, Origin{}); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v; expected an error in one line", text, got, err)
		}
	}
}

func TestAFilterOfDeadLettersSeesWhatIsKnownOfThem(t *testing.T) {
	t.Parallel()
	f, err := CompileForDeadLetters(`status == "failed" and attempts > 2 and answer contains "404" and reason == "attempts" and key != ""`)
	if err != nil {
		t.Fatal(err)
	}
	d := Details{Status: "failed", Reason: "attempts", Answer: "HTTP 404", Attempts: 3}
	if got, err := f.MatchDeadLetter(sample(), Origin{}, d); err != nil || !got {
		t.Errorf("%v, %v", got, err)
	}
	d.Attempts = 2
	if got, err := f.MatchDeadLetter(sample(), Origin{}, d); err != nil || got {
		t.Errorf("%v, %v", got, err)
	}
}

func TestOnlyOneWholeValueOfJSONIsOne(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{"7": int64(7), "-1e400": math.Inf(-1), `"a"`: "a", "7 8": nil, "": nil, "{": nil, "18446744073709551616": 18446744073709551616.0} {
		if got := decode([]byte(text)); got != want {
			t.Errorf("%q: %v; expected %v", text, got, want)
		}
	}
}

func FuzzFilter(f *testing.F) {
	for _, text := range []string{`headers.a == "b"`, `value.a.b?.c ?? 1 > 2`, `any(value, # in [1,2])`, `key matches "a+"`, `timestamp % 7 == -1 ? true : false`} {
		f.Add(text, []byte(`{"a":{"b":[1,2]}}`))
	}
	f.Fuzz(func(_ *testing.T, text string, value []byte) {
		c, err := Compile(text)
		if err == nil {
			_, _ = c.Match(&commitlog.Record{Key: value, Value: value, Headers: []commitlog.Header{{Name: "a", Value: value}}}, Origin{})
		}
	})
}
