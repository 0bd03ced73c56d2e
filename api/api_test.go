package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden file anew")

// all has one value of each struct of the contract.
var all = []any{
	Backup{}, BlockedKey{}, Me{}, NewToken{}, Problem{}, Produced{}, Refusals{}, Check{}, DeadLetter{}, DeadLetterOrder{}, Deletion{}, Group{}, GroupPause{}, KeyAnswer{}, Record{}, Reset{}, Reshard{}, Retirement{}, RetentionChange{},
	Ring{}, RingOwner{}, Seek{}, Subscription{}, Status{}, SubscriptionStatus{}, Topic{}, TopicCheck{}, TopicGrowth{}, TopicSummary{},
}

// The JSON form of each struct is a contract. Whoever changes it changes the golden file (go test ./api -update), and a
// review sees that.
func TestJSONFormIsTheGoldenOne(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	for _, v := range all {
		filled := reflect.New(reflect.TypeOf(v)).Elem()
		fill(filled)
		fmt.Fprintf(&got, "%s ", filled.Type().Name())
		enc := json.NewEncoder(&got)
		enc.SetIndent("", "  ")
		if err := enc.Encode(filled.Interface()); err != nil {
			t.Fatal(err)
		}
		var zero bytes.Buffer
		if err := json.NewEncoder(&zero).Encode(v); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "empty %s\n", &zero)
	}
	const golden = "testdata/golden.txt"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the JSON form has changed; if that is meant: go test ./api -update, and a line in the changelog. It is\n%s", &got)
	}
}

// The routes and their parameters are a contract, too.
func TestRoutesAreTheGoldenOnes(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	for _, r := range V1.All() {
		fmt.Fprintf(&got, "%s: %s (%s) %s → %s\n  %s\n", r.Name, r, r.Permission, name(r.In), name(r.Out), r.About)
		for _, f := range r.in.fields {
			fmt.Fprintf(&got, "  %s %s %s\n", f.where, f.name, r.In.FieldByIndex(f.index).Type)
		}
		if r.in.body != nil {
			body := reflect.New(r.In.FieldByIndex(r.in.body).Type).Elem()
			if body.Type() != reflect.TypeFor[json.RawMessage]() {
				fill(body)
			}
			text, err := json.Marshal(body.Interface())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&got, "  body %s\n", text)
		}
	}
	const golden = "testdata/routes.txt"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the routes have changed; if that is meant: go test ./api -update, and a line in the changelog. They are\n%s", &got)
	}
}

func name(t reflect.Type) string {
	return strings.ReplaceAll(t.String(), "github.com/ringfence/ringfence/api.", "")
}

// fill sets each field to a value that its JSON form shows.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
		if v.Type() == reflect.TypeFor[Time]() {
			v.SetString(string(TimeOf(time.UnixMilli(1767225600123))))
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	}
}

// Each struct of the package is in the golden file, by itself or within another.
func TestGoldenFileHasEachStruct(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			visit(typ.Elem())
		case reflect.Struct:
			seen[typ.Name()] = true
			for i := range typ.NumField() {
				visit(typ.Field(i).Type)
			}
		}
	}
	for _, v := range all {
		visit(reflect.TypeOf(v))
	}
	for _, r := range V1.All() {
		visit(r.In)
		visit(r.Out)
	}
	for _, name := range []string{"Route", "Routes", "Call", "List", "binding", "field"} { // what routes are made of
		seen[name] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if _, ok := spec.Type.(*ast.StructType); ok && !seen[spec.Name.Name] {
					t.Errorf("%s is in none of the structs of the golden file", spec.Name.Name)
				}
			}
			return true
		})
	}
}

func TestTimesAreTextsThatCompare(t *testing.T) {
	t.Parallel()
	texts := []string{}
	for _, ms := range []int64{1, 999, 1000, 1767225600123} {
		at := Millis(ms)
		if got := at.Time().UnixMilli(); got != ms {
			t.Errorf("%s is read as %d; want %d", at, got, ms)
		}
		texts = append(texts, string(at))
	}
	if !slices.IsSorted(texts) || Millis(0) != "" || TimeOf(time.Time{}) != "" || !Time("").Time().IsZero() {
		t.Errorf("%q; want texts in order, and none for no time", texts)
	}
}
