package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/client"
	"github.com/ringfence/ringfence/internal/daemon"
	"github.com/ringfence/ringfence/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a daemon on stores in memory.
type server struct {
	t    *testing.T
	url  string
	root string // the token of an owner
}

func start(t *testing.T) *server {
	t.Helper()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Open(t.Context(), daemon.Config{Client: rf})
	if err != nil {
		t.Fatal(err)
	}
	first, err := d.OwnerToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l, err := daemon.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx, []net.Listener{l}...) }() // joined at the end
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, d.Close(), rf.Close()); err != nil {
			t.Error(err)
		}
	})
	return &server{t, "http://" + l.Addr().String(), first.Secret}
}

func (s *server) as(token, namespace string) *client.Client {
	s.t.Helper()
	c, err := client.New(client.Config{URL: s.url, Token: token, Namespace: namespace})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func do[In, Out any](t *testing.T, c *client.Client, call *api.Call[In, Out], in In) Out {
	t.Helper()
	out, err := client.Do(t.Context(), c, call, &in)
	if err != nil {
		t.Fatalf("%s: %v", call.Route.String(), err)
	}
	return out
}

// token makes a token.
func (s *server) token(grants ...api.Grant) string {
	s.t.Helper()
	return do(s.t, s.as(s.root, ""), &api.V1.MakeToken, api.MakeToken{Body: api.NewTokenSpec{Name: "test", Grants: grants}}).Secret
}

// raw sends a request as a program without a library does.
func (s *server) raw(method, path, token, body string, header ...string) (status int, answer string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestRecordsAreProducedAndRead(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.as(s.root, "")
	do(t, c, &api.V1.CreateTopic, api.CreateTopic{TopicRef: api.TopicRef{Topic: "a"}, Body: api.NewTopic{Partitions: 2}})
	if status, text := s.raw("POST", "/v1/ns/default/topics/a/records", s.root, `{"key":"k","value":"0"}`); status != 200 || text != `{"records":[{"storage":0,"partition":1,"offset":0}]}`+"\n" {
		t.Fatalf("%d %s", status, text)
	}
	var lines strings.Builder
	for i := 1; i < 100; i++ {
		fmt.Fprintf(&lines, "{\"key\":\"k\",\"value\":\"%d\"}\n", i)
	}
	if status, text := s.raw("POST", "/v1/ns/default/topics/a/records", s.root, lines.String(), "Content-Type", "application/x-ndjson"); status != 200 || strings.Count(text, "offset") != 99 {
		t.Fatalf("%d %s", status, text)
	}
	status, text := s.raw("GET", "/v1/ns/default/topics/a/records?key=k&from=earliest", s.root, "")
	n := 0
	for line := range strings.Lines(text) {
		r, err := api.ParseRecord([]byte(line))
		if err != nil || r.Value != fmt.Sprint(n) {
			t.Fatalf("line %d is %s (%v)", n, line, err)
		}
		n++
	}
	if status != 200 || n != 100 {
		t.Errorf("%d, %d records", status, n)
	}
}

// A record that is repeated with the number of its producer is stored once.
func TestAProducerThatRepeatsIsStoredOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	do(t, s.as(s.root, ""), &api.V1.CreateTopic, api.CreateTopic{TopicRef: api.TopicRef{Topic: "a"}, Body: api.NewTopic{Partitions: 1}})
	for range 3 {
		if status, text := s.raw("POST", "/v1/ns/default/topics/a/records", s.root, `{"key":"k","value":"x"}`, "Ringfence-Producer", "77/0/0"); status != 200 || !strings.Contains(text, `"offset":0`) {
			t.Fatalf("%d %s", status, text)
		}
	}
}

func TestNamespacesAreApart(t *testing.T) {
	t.Parallel()
	s := start(t)
	do(t, s.as(s.root, "eu"), &api.V1.CreateTopic, api.CreateTopic{TopicRef: api.TopicRef{Topic: "a"}, Body: api.NewTopic{Partitions: 1}})
	if _, err := client.Do(t.Context(), s.as(s.root, ""), &api.V1.DescribeTopic, &api.TopicRef{Topic: "a"}); !errors.Is(err, ringfence.ErrNotFound) || fault.ExitCode(err) != fault.ExitNotFound {
		t.Errorf("a topic of another namespace: %v", err)
	}
}

func TestARevokedTokenIsNoneAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	owner := s.as(s.root, "")
	made := do(t, owner, &api.V1.MakeToken, api.MakeToken{Body: api.NewTokenSpec{Name: "x", Grants: []api.Grant{{Role: api.RoleViewer, Namespace: "*"}}}})
	c := s.as(made.Secret, "")
	do(t, c, &api.V1.ListTopics, api.None{})
	do(t, owner, &api.V1.EndToken, api.TokenRef{Token: made.ID})
	if _, err := client.Do(t.Context(), c, &api.V1.ListTopics, &api.None{}); !errors.Is(err, fault.Denied) {
		t.Errorf("with a revoked token: %v", err)
	}
	if all := do(t, owner, &api.V1.ListTokens, api.None{}); len(all.Items) != 2 || all.Items[1].Revoked == "" {
		t.Errorf("tokens: %+v", all.Items)
	}
}

// Every route lets in the roles that have its permission, in their namespace, and no other principal.
func TestEveryRouteAsksForItsPermission(t *testing.T) {
	t.Parallel()
	s := start(t)
	tokens := map[api.Role]string{}
	for _, role := range api.Roles() {
		namespace := "mine*"
		if role == api.RoleOwner {
			namespace = "*"
		}
		tokens[role] = s.token(api.Grant{Role: role, Namespace: namespace})
	}
	for _, route := range api.V1.All() {
		method, path, _ := strings.Cut(route.Pattern(), " ")
		for _, name := range append(route.Parameters(), "namespace") {
			path = strings.ReplaceAll(path, "{"+name+"}", map[string]string{"namespace": "mine"}[name]+"x")
		}
		ask := func(path, token string) int {
			status, text := s.raw(method, path, token, "{}")
			var p api.Problem
			if status >= 400 && (json.Unmarshal([]byte(text), &p) != nil || p.Status != status || p.Detail == "" || p.Instance == "") {
				t.Errorf("%s: the answer %d is no problem: %s", route, status, text)
			}
			return status
		}
		if got := ask(path, ""); got != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", route, got)
		}
		for role, token := range tokens {
			may := route.Permission == api.Authenticated || role.May(route.Permission)
			if route.Global && role == api.RoleAdmin {
				may = route.Permission == api.Authenticated
			}
			if got := ask(path, token); (got == http.StatusForbidden) == may || got == http.StatusUnauthorized {
				t.Errorf("%s as %s: %d", route, role, got)
			}
			if route.Global || role == api.RoleOwner {
				continue
			}
			if got := ask(strings.Replace(path, "/ns/minex/", "/ns/other/", 1), token); got != http.StatusForbidden {
				t.Errorf("%s as %s of another namespace: %d", route, role, got)
			}
		}
	}
}

// A grant for some names reaches no others, and lists show what it reaches.
func TestAGrantForSomeNamesReachesNoOthers(t *testing.T) {
	t.Parallel()
	s := start(t)
	owner := s.as(s.root, "")
	for _, name := range []string{"pay-in", "pay-out", "clicks"} {
		do(t, owner, &api.V1.CreateTopic, api.CreateTopic{TopicRef: api.TopicRef{Topic: name}, Body: api.NewTopic{Partitions: 1}})
	}
	c := s.as(s.token(api.Grant{Role: api.RoleReader, Namespace: "default", Objects: "pay-*"}), "")
	if all := do(t, c, &api.V1.ListTopics, api.None{}); len(all.Items) != 2 {
		t.Errorf("it sees %+v", all.Items)
	}
	do(t, c, &api.V1.DescribeTopic, api.TopicRef{Topic: "pay-in"})
	if _, err := client.Do(t.Context(), c, &api.V1.DescribeTopic, &api.TopicRef{Topic: "clicks"}); !errors.Is(err, fault.Denied) {
		t.Errorf("a topic beyond the grant: %v", err)
	}
}

func TestBadRequestsAreToldWhatWasExpected(t *testing.T) {
	t.Parallel()
	s := start(t)
	do(t, s.as(s.root, ""), &api.V1.CreateTopic, api.CreateTopic{TopicRef: api.TopicRef{Topic: "a"}, Body: api.NewTopic{Partitions: 1}})
	const topics = "/v1/ns/default/topics"
	for _, c := range []struct {
		method, path, body string
		header             []string
		status             int
		want               string
	}{
		{"PUT", topics + "/b", `{"partition":1}`, nil, 400, `unknown field \"partition\"`},
		{"PUT", topics + "/b", `{"partitions":"x"}`, nil, 400, `\"partitions\" is a JSON string`},
		{"PUT", topics + "/b", `{"partitions":1}{}`, nil, 400, "expected one JSON value"},
		{"PUT", topics + "/b", `{"partitions":1`, nil, 400, "ends within it"},
		{"PUT", topics + "/b", `{"partitions":1}`, []string{"Content-Type", "text/xml"}, 400, "expected application/json"},
		{"PUT", topics + "/b?neww=1", `{"partitions":1}`, nil, 400, "expected one of the parameters new"},
		{"PUT", topics + "/b?new=perhaps", `{"partitions":1}`, nil, 400, "expected true or false"},
		{"PUT", topics + "/b", `{"partitions":-1}`, nil, 400, "partitions"},
		{"POST", topics + "/a:swich", "", nil, 404, "expected an order"},
		{"POST", topics + "/a", "", nil, 404, "expected an order"},
		{"GET", "/v1/topics", "", nil, 404, "is no route"},
		{"POST", topics + "/a/records", `{"valu":"x"}`, nil, 400, "unknown field"},
		{"POST", topics + "/a/records", "", nil, 400, "the line is empty"},
		{"POST", topics + "/a/records", "{\"value\":\"x\"}\nx\n", []string{"Content-Type", "application/x-ndjson"}, 400, "line 2"},
		{"POST", topics + "/a/records", `{"value":"x"}`, []string{"Ringfence-Producer", "1/2"}, 400, "ID/SEQUENCE/HOME"},
		{"POST", topics + "/a/records?partition=9", `{"value":"x"}`, nil, 400, "partition"},
		{"GET", topics + "/a/records?from=yesterday", "", nil, 400, "yesterday"},
		{"GET", topics + "/zz/records", "", nil, 404, "zz"},
		{"GET", topics, "", []string{"Host", "evil.example"}, 403, "expected a name of this daemon"},
		{"POST", topics + "/a:switch", "", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, 403, "evil.example"},
		{"GET", topics, "", []string{"Authorization", "Bearer rf_x_y_z"}, 401, "typing error"},
		{"GET", topics, "", []string{"Authorization", "Basic abc"}, 401, "expected a token"},
	} {
		status, text := s.raw(c.method, c.path, s.root, c.body, c.header...)
		var p api.Problem
		if err := json.Unmarshal([]byte(text), &p); err != nil || status != c.status || p.Status != status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s %s: %d %s; expected %d and %q", c.method, c.path, c.body, status, text, c.status, c.want)
		}
	}
}
