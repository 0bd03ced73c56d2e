// Package filter chooses records by an expression on their key, their headers and their value.
//
// An expression comes from a definition that others write to, and is computed for each record. So it may
// use only a small part of the language of expr-lang.org, in which nothing loops, grows or calls: see
// check. Its cost grows with the size of the expression times that of the record.
package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// MaxBytes bounds the length of an expression.
const MaxBytes = 2048

// Filter is a compiled expression. It may be used concurrently.
type Filter struct {
	text    string
	program *vm.Program
	value   bool // it looks at the value
}

// Origin is where a record is from.
type Origin struct {
	Topic     string
	Partition int
	Offset    int64
}

// Details is what is known of a dead letter beside its record; zero for other records.
type Details struct {
	Status   string
	Reason   string
	Answer   string
	Attempts int
}

// record is what an expression sees.
type record struct {
	Key       string            `expr:"key"`     // "" when it has none
	Headers   map[string]string `expr:"headers"` // the last of each name
	Value     any               `expr:"value"`   // of JSON; nil when it is none
	Topic     string            `expr:"topic"`
	Partition int               `expr:"partition"`
	Offset    int64             `expr:"offset"`
	Timestamp int64             `expr:"timestamp"` // Unix ms
}

// letter is what an expression about dead letters sees.
type letter struct {
	record
	Status   string `expr:"status"`
	Reason   string `expr:"reason"`
	Answer   string `expr:"answer"`
	Attempts int    `expr:"attempts"`
}

// Compile compiles an expression about records; fault.Invalid when it can't be one.
func Compile(text string) (*Filter, error) { return compile(text, record{}) }

// CompileForDeadLetters compiles one that may also use the Details of a dead letter.
func CompileForDeadLetters(text string) (*Filter, error) { return compile(text, letter{}) }

func compile(text string, sight any) (*Filter, error) {
	bad := func(why error) (*Filter, error) {
		return nil, fmt.Errorf("filter %.80q: %w: %w", text, why, fault.Invalid)
	}
	if len(text) > MaxBytes {
		return bad(fmt.Errorf("%d bytes; expected at most %d", len(text), MaxBytes))
	}
	seen, err := check(text)
	if err != nil {
		return bad(err)
	}
	options := []expr.Option{expr.Env(sight), expr.DisableAllBuiltins()}
	for _, name := range builtins() {
		options = append(options, expr.EnableBuiltin(name))
	}
	if _, err = expr.Compile(text, append(options, expr.AsBool())...); err != nil {
		if text := oneLine(err).Error(); strings.HasPrefix(text, "unknown name ") {
			return bad(fmt.Errorf("%s; there are %s, and a field of a value that is JSON is value.NAME", text, names(sight)))
		}
		return bad(oneLine(err))
	}
	program, err := expr.Compile(text, options...) // without the option that takes nil for false
	if err != nil {
		return bad(oneLine(err))
	}
	return &Filter{text: text, program: program, value: seen.value}, nil
}

// names are those that an expression may use.
func names(sight any) string {
	names := "key, headers, value, topic, partition, offset, timestamp"
	if _, dead := sight.(letter); dead {
		names += ", status, reason, answer, attempts"
	}
	return names
}

// String returns the expression.
func (f *Filter) String() string { return f.text }

// Match reports whether the expression is true of a record. The error is that it can't be computed for that
// record: a field that it compares is missing, say, or not of that type. Nothing is known of the record then.
func (f *Filter) Match(r *commitlog.Record, from Origin) (bool, error) {
	return f.run(f.see(r, from))
}

// MatchDeadLetter is Match with the Details of a dead letter.
func (f *Filter) MatchDeadLetter(r *commitlog.Record, from Origin, d Details) (bool, error) {
	return f.run(letter{record: f.see(r, from), Status: d.Status, Reason: d.Reason, Answer: d.Answer, Attempts: d.Attempts})
}

func (f *Filter) run(sight any) (bool, error) {
	got, err := expr.Run(f.program, sight)
	if err != nil {
		return false, fmt.Errorf("filter %.80q: %w", f.text, oneLine(err))
	}
	yes, ok := got.(bool)
	if !ok {
		return false, fmt.Errorf("filter %.80q: it came to a %T; expected true or false", f.text, got)
	}
	return yes, nil
}

func (f *Filter) see(r *commitlog.Record, from Origin) record {
	rec := record{Key: string(r.Key), Topic: from.Topic, Partition: from.Partition, Offset: from.Offset, Timestamp: r.Timestamp}
	if len(r.Headers) > 0 {
		rec.Headers = make(map[string]string, len(r.Headers))
		for _, h := range r.Headers {
			rec.Headers[h.Name] = string(h.Value)
		}
	}
	if f.value {
		rec.Value = decode(r.Value)
	}
	return rec
}

// decode decodes JSON; nil for anything else. Whole numbers are exact up to 64 bits.
func decode(text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil // something follows
	}
	return numbers(v)
}

// numbers makes the numbers of a value comparable.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // infinite when it is beyond all that there is
		return f
	case map[string]any:
		for k, x := range v {
			v[k] = numbers(x)
		}
	case []any:
		for i, x := range v {
			v[i] = numbers(x)
		}
	}
	return v
}
