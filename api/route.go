package api

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
)

// Route is one operation of the API of a daemon.
type Route struct {
	Name       string // of its field in [Routes]
	Method     string
	Path       string     // below /v1/ns/NAMESPACE/, or below /v1/
	Global     bool       // below /v1/
	Permission Permission // that it needs, in its namespace, for the object that it names
	About      string     // one sentence
	In, Out    reflect.Type
	Stream     bool // the answer may go on: lines, or server-sent events

	in *binding
}

// Pattern is the route for http.ServeMux.
func (r *Route) Pattern() string { return r.Method + " " + r.full("{namespace}") }

func (r *Route) full(namespace string) string {
	if r.Global {
		return "/v1/" + r.Path
	}
	return "/v1/ns/" + namespace + "/" + r.Path
}

// DefaultNamespace is the empty namespace, in a path.
const DefaultNamespace = "default"

// Call is a route with its types. Fields of In say by their tags where they stand: path, query, header; the field Body is
// the body, in JSON. Out is the body of the answer; [None] is none.
type Call[In, Out any] struct{ Route }

// None is no parameter and no answer.
type None struct{}

func call[In, Out any](method, path string, p Permission, about string) Call[In, Out] {
	in, out := reflect.TypeFor[In](), reflect.TypeFor[Out]()
	return Call[In, Out]{Route{Method: method, Path: path, Permission: p, About: about, In: in, Out: out, in: bind(in)}}
}

func get[In, Out any](path string, p Permission, about string) Call[In, Out] {
	return call[In, Out](http.MethodGet, path, p, about)
}

func post[In, Out any](path string, p Permission, about string) Call[In, Out] {
	return call[In, Out](http.MethodPost, path, p, about)
}

func put[In, Out any](path string, p Permission, about string) Call[In, Out] {
	return call[In, Out](http.MethodPut, path, p, about)
}

func patch[In, Out any](path string, p Permission, about string) Call[In, Out] {
	return call[In, Out](http.MethodPatch, path, p, about)
}

func remove[In, Out any](path string, p Permission, about string) Call[In, Out] {
	return call[In, Out](http.MethodDelete, path, p, about)
}

// stream makes a call one whose answer may go on.
func stream[In, Out any](c Call[In, Out]) Call[In, Out] {
	c.Stream = true
	return c
}

// global makes a call one of the daemon, below /v1/.
func global[In, Out any](c Call[In, Out]) Call[In, Out] {
	c.Global = true
	return c
}

// All are the routes, in their order in the struct.
func (r *Routes) All() []*Route {
	v := reflect.ValueOf(r).Elem()
	all := make([]*Route, v.NumField())
	for i := range all {
		all[i] = v.Field(i).Field(0).Addr().Interface().(*Route) //nolint:forcetypeassert // each field is a Call
	}
	return all
}

// Parameters are the names that a path has in braces.
func (r *Route) Parameters() (names []string) {
	for _, part := range strings.FieldsFunc(r.Path, func(c rune) bool { return c == '/' || c == ':' }) {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

func (r *Route) String() string { return fmt.Sprintf("%s %s", r.Method, r.full("NAMESPACE")) }
