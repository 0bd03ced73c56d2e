package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
)

// binding says where the fields of an In stand in a request. Client and daemon use the same.
type binding struct {
	fields []field
	body   []int // index of Body; nil: none
}

type field struct {
	index []int
	where string // path, query or header
	name  string
	many  bool // a list: the parameter may be repeated
}

const (
	inPath   = "path"
	inQuery  = "query"
	inHeader = "header"
)

// bind reads the tags of a struct; those of embedded structs too.
func bind(t reflect.Type) *binding {
	b := new(binding)
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue
		}
		if f.Name == "Body" {
			b.body = f.Index
			continue
		}
		for _, where := range []string{inPath, inQuery, inHeader} {
			if name, ok := f.Tag.Lookup(where); ok {
				b.fields = append(b.fields, field{f.Index, where, name, f.Type.Kind() == reflect.Slice})
			}
		}
	}
	return b
}

// Request is the request of a call with in, to a daemon at base.
func (c *Call[In, Out]) Request(base, namespace string, in *In) (*http.Request, error) {
	v := reflect.ValueOf(in).Elem()
	path, query, header := c.full(url.PathEscape(namespace)), url.Values{}, http.Header{}
	for _, f := range c.in.fields {
		for _, text := range texts(v.FieldByIndex(f.index)) {
			switch f.where {
			case inPath:
				path = strings.Replace(path, "{"+f.name+"}", url.PathEscape(text), 1)
			case inQuery:
				query.Add(f.name, text)
			case inHeader:
				header.Set(f.name, text)
			}
		}
	}
	if strings.Contains(path, "{") {
		return nil, fmt.Errorf("%s: a name is missing: %w", c.Route.String(), fault.Invalid)
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var body io.Reader
	if c.in.body != nil {
		text, err := json.Marshal(v.FieldByIndex(c.in.body).Interface())
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", c.Route.String(), err, fault.Invalid)
		}
		body = bytes.NewReader(text)
		header.Set("Content-Type", "application/json")
	}
	r, err := http.NewRequest(c.Method, base+path, body) //nolint:noctx // the caller sets it
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", c.Route.String(), err, fault.Invalid)
	}
	r.Header = header
	return r, nil
}

// texts are the values of a field as texts: none for its zero value, as many as a list has.
func texts(v reflect.Value) []string {
	if v.Kind() == reflect.Slice {
		all := make([]string, v.Len())
		for i := range all {
			all[i] = text(v.Index(i))
		}
		return all
	}
	if v.IsZero() {
		return nil
	}
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return []string{text(v)}
}

func text(v reflect.Value) string { return fmt.Sprint(v.Interface()) }

// Bind reads the parameters of a request. names are those of the path. Every fault is in the error, which is ErrInvalid.
func (c *Call[In, Out]) Bind(r *http.Request, names func(string) string) (*In, error) {
	in := new(In)
	v := reflect.ValueOf(in).Elem()
	p := &Problem{}
	var query url.Values
	if r.URL.RawQuery != "" {
		var err error
		if query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			p.Errors = append(p.Errors, ProblemError{"query", err.Error()})
		}
	}
	known := 0
	for _, f := range c.in.fields {
		var given []string
		switch f.where {
		case inPath:
			given = []string{names(f.name)}
		case inQuery:
			if query != nil {
				if given = query[f.name]; given != nil {
					known++
				}
			}
		case inHeader:
			given = r.Header.Values(f.name)
		}
		if err := set(v.FieldByIndex(f.index), given, f.many); err != nil {
			p.Errors = append(p.Errors, ProblemError{f.name, err.Error()})
		}
	}
	if known < len(query) {
		p.Errors = append(p.Errors, c.unknown(query)...)
	}
	if c.in.body != nil {
		p.Errors = append(p.Errors, decode(r, v.FieldByIndex(c.in.body).Addr().Interface())...)
	}
	if len(p.Errors) == 0 {
		return in, nil
	}
	told := make([]string, len(p.Errors))
	for i, e := range p.Errors {
		told[i] = e.At + ": " + e.Message
	}
	full := ProblemOf(fmt.Errorf("%s: %w", strings.Join(told, "; "), fault.Invalid))
	full.Errors = p.Errors
	return nil, full
}

// unknown are the parameters that the route has not.
func (c *Call[In, Out]) unknown(query url.Values) (errs []ProblemError) {
	var has []string
	for _, f := range c.in.fields {
		if f.where == inQuery {
			has = append(has, f.name)
		}
	}
	for name := range query {
		found := false
		for _, h := range has {
			found = found || h == name
		}
		if !found {
			errs = append(errs, ProblemError{name, fmt.Sprintf("expected one of the parameters %s", strings.Join(has, ", "))})
		}
	}
	return errs
}

func set(v reflect.Value, given []string, many bool) error {
	if many {
		list := reflect.MakeSlice(v.Type(), len(given), len(given))
		for i, text := range given {
			if err := setOne(list.Index(i), text); err != nil {
				return err
			}
		}
		if len(given) > 0 {
			v.Set(list)
		}
		return nil
	}
	switch len(given) {
	case 0:
		return nil
	case 1:
		return setOne(v, given[0])
	}
	return fmt.Errorf("found %d values; expected one", len(given))
}

func setOne(v reflect.Value, text string) error {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return setOne(v.Elem(), text)
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("found %.40q; expected true or false", text)
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("found %.40q; expected a whole number", text)
		}
		v.SetInt(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("found %.40q; expected a number", text)
		}
		v.SetFloat(n)
	default:
		return fmt.Errorf("a %s can't be a parameter", v.Type())
	}
	return nil
}

// decode reads a body as JSON, strictly.
func decode(r *http.Request, to any) []ProblemError {
	const at = "body"
	switch t, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); t {
	case "", "application/json", "application/merge-patch+json", "application/x-www-form-urlencoded": // the last is what curl says of its own accord
	default:
		return []ProblemError{{at, fmt.Sprintf("found %.60q; expected application/json", t)}}
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err == io.EOF {
		return nil // all defaults
	} else if err != nil {
		return []ProblemError{{at, bodyFault(err)}}
	}
	if _, err := dec.Token(); err != io.EOF {
		return []ProblemError{{at, "expected one JSON value, found more"}}
	}
	return nil
}

func bodyFault(err error) string {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return fmt.Sprintf("expected at most %d bytes", large.Limit)
	}
	return jsonFault(err)
}
