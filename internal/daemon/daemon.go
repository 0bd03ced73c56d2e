// Package daemon is the API of "ringfence serve": HTTP in front of the library, for programs of any language.
//
// Every request has a principal, and every route says which permission it needs (package api); nothing but routes
// reaches the library.
package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/auth"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/remote"
	"github.com/ringfence/ringfence/topic"
)

// Config is what a daemon needs.
type Config struct {
	Client *ringfence.Client // the stores
	Hosts  []string          // names besides those of this host by which requests may reach it
	Logger *slog.Logger
}

// Daemon is the API over stores.
type Daemon struct {
	config Config
	tokens *auth.Tokens
	start  string // of this process: in the ID of each session
	mux    *http.ServeMux
	stop   context.CancelFunc
	run    sync.WaitGroup

	mu         sync.Mutex
	namespaces map[string]*namespace // that were asked for
}

// drainTime is how long sessions may take to end with the daemon.
const drainTime = 10 * time.Second

// namespace is what a daemon has open of one.
type namespace struct {
	*ringfence.Client
	hub *remote.Hub // the sessions
}

// Open makes the API ready to answer. The caller closes the daemon, before the client.
func Open(ctx context.Context, c Config) (*Daemon, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Daemon{config: c, namespaces: map[string]*namespace{}, start: strings.ToLower(rand.Text())}
	root, err := d.in(ctx, "")
	if err != nil {
		return nil, err
	}
	catalog := topic.NewCatalog(root.Log(), root.Registry(), "").WithLogger(c.Logger)
	if d.tokens, err = auth.Open(ctx, catalog, c.Logger); err != nil {
		return nil, errors.Join(err, d.closeAll())
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	d.run.Go(func() { d.tokens.Run(running) }) // joined by Close
	if err := d.tokens.Ready(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.mux = d.routes()
	return d, nil
}

// Close ends the API. Its handlers must have returned.
func (d *Daemon) Close() error {
	d.stop()
	d.run.Wait()
	return d.closeAll()
}

func (d *Daemon) closeAll() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	for _, n := range d.namespaces {
		n.hub.Close(ctx)
		if n.Client != d.config.Client {
			err = errors.Join(err, n.Close())
		}
	}
	return err
}

// in is what is open of a namespace.
func (d *Daemon) in(ctx context.Context, name string) (*namespace, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.namespaces[name]; n != nil {
		return n, nil
	}
	c := d.config.Client
	if name != c.Namespace() {
		var err error
		if c, err = c.In(ctx, name); err != nil {
			return nil, err
		}
	}
	n := &namespace{c, c.Remote(d.start)}
	d.namespaces[name] = n
	return n, nil
}

// request is a request that may be answered.
type request struct {
	*http.Request
	principal *auth.Principal
	namespace string // as in the path
	rf        *namespace
	route     *api.Route
	names     func(string) string // the parameters of the path
}

// sees says whether the principal may know of an object that a list has.
func (r *request) sees(object string) bool {
	return r.principal.Sees(r.route.Permission, r.namespace, object)
}

type handler func(w http.ResponseWriter, r *request) error

// routed is the handlers of one pattern of the mux, by the verb at the end of the path: "switch" in topics/T:switch.
type routed struct {
	route  *api.Route
	handle handler
}

// table collects the handlers.
type table struct {
	d   *Daemon
	all map[string]map[string]routed // by pattern and verb
}

func (t *table) add(r *api.Route, h handler) {
	pattern, verb := r.Pattern(), ""
	if i := strings.LastIndex(pattern, "}:"); i > 0 {
		pattern, verb = pattern[:i+1], pattern[i+2:]
	}
	if t.all[pattern] == nil {
		t.all[pattern] = map[string]routed{}
	}
	t.all[pattern][verb] = routed{r, h}
}

// on adds the handler of a call.
func on[In, Out any](t *table, c *api.Call[In, Out], f func(r *request, in *In) (Out, error)) {
	t.add(&c.Route, func(w http.ResponseWriter, r *request) error {
		in, err := c.Bind(r.Request, r.names)
		if err != nil {
			return err
		}
		out, err := f(r, in)
		if err != nil {
			return err
		}
		if _, none := any(out).(api.None); none {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return answer(w, http.StatusOK, out)
	})
}

// onStream adds the handler of a call that writes its answer by itself.
func onStream[In, Out any](t *table, c *api.Call[In, Out], f func(w http.ResponseWriter, r *request, in *In) error) {
	t.add(&c.Route, func(w http.ResponseWriter, r *request) error {
		in, err := c.Bind(r.Request, r.names)
		if err != nil {
			return err
		}
		return f(w, r, in)
	})
}

func (t *table) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, verbs := range t.all {
		last := pattern[strings.LastIndex(pattern, "/")+1:]
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			names, verb := r.PathValue, ""
			if name, ok := strings.CutPrefix(last, "{"); ok && (len(verbs) > 1 || verbs[""].handle == nil) {
				name = strings.TrimSuffix(name, "}")
				value, v, _ := strings.Cut(r.PathValue(name), ":")
				verb = v
				names = func(n string) string {
					if n == name {
						return value
					}
					return r.PathValue(n)
				}
			}
			to, ok := verbs[verb]
			if !ok {
				told := slices.DeleteFunc(slices.Sorted(maps.Keys(verbs)), func(v string) bool { return v == "" })
				t.d.refuse(w, r, fmt.Errorf("%s %s: expected an order, :%s: %w", r.Method, r.URL.Path, strings.Join(told, " or :"), fault.NotFound))
				return
			}
			if err := t.d.serve(w, r, to, names); err != nil {
				t.d.refuse(w, r, err)
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { t.d.refuse(w, r, t.noRoute(r)) })
	return mux
}

// noRoute says what is wrong with a request that has no route.
func (t *table) noRoute(r *http.Request) error {
	err := fmt.Errorf("%s %s is no route of the API; the document at /v1/openapi.json has all: %w", r.Method, r.URL.Path, fault.NotFound)
	return err
}

// serve answers a request of a known route.
func (d *Daemon) serve(w http.ResponseWriter, r *http.Request, to routed, names func(string) string) error {
	principal, err := d.principal(r)
	if err != nil {
		return err
	}
	q := &request{Request: r, principal: principal, route: to.route, names: names}
	objects := []string{}
	if !to.route.Global {
		q.namespace = names("namespace")
		if p := to.route.Parameters(); len(p) > 0 {
			objects = append(objects, names(p[0]))
		}
	}
	if !principal.May(to.route.Permission, q.namespace, objects...) {
		return fmt.Errorf("%q may not: %s needs the permission %s there: %w", principal.Name, to.route, to.route.Permission, fault.Denied)
	}
	if !to.route.Global {
		namespace := q.namespace
		if namespace == api.DefaultNamespace {
			namespace = ""
		}
		if q.rf, err = d.in(r.Context(), namespace); err != nil {
			return err
		}
	}
	return to.handle(w, q)
}

// localUser marks requests that came through the socket of the directory.
type localUser struct{}

// principal says what a request comes from.
func (d *Daemon) principal(r *http.Request) (*auth.Principal, error) {
	header := r.Header.Get("Authorization")
	if header == "" && r.Context().Value(localUser{}) != nil {
		return auth.Local(), nil
	}
	secret, ok := strings.CutPrefix(header, "Bearer ")
	if !ok {
		return nil, unauthenticated(fmt.Errorf("expected a token: Authorization: Bearer rf_…: %w", fault.Denied))
	}
	p, err := d.tokens.Principal(secret, time.Now())
	if errors.Is(err, fault.Denied) {
		return nil, unauthenticated(err)
	}
	return p, err
}

func unauthenticated(err error) error {
	p := api.ProblemOf(err)
	p.Status = http.StatusUnauthorized
	return p
}
