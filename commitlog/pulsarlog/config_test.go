package pulsarlog

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

func TestURLsThatAreRefusedShowNoSecret(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"pulsar://:hunter2@127.0.0.1:1?colour=red":                 "colour",
		"pulsar://:hunter2@127.0.0.1:1?web=ftp://x":                "web=",
		"pulsar://:hunter2@127.0.0.1:1?web=http://a:8080,":         "web=",
		"pulsar://:hunter2@127.0.0.1:1?web=http://a:8080,:8080":    "web=",
		"pulsar://:hunter2@127.0.0.1:1?compression=rar":            "rar",
		"pulsar://:hunter2@127.0.0.1:1?token-file=/tmp/x":          "token",
		"pulsar://:hunter2@127.0.0.1:1?cert=/tmp/x":                "key",
		"pulsar://:hunter2@127.0.0.1:1?ca=/tmp/x":                  "used for nothing",
		"pulsar://:hunter2@127.0.0.1:1/onlytenant":                 "/tenant/namespace",
		"pulsar://:hunter2@127.0.0.1:1?max-message=5MB":            "number of bytes",
		"pulsar+ssl://:hunter2@127.0.0.1:1?ca=/does/not/exist.pem": "ca=",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		_, err = OpenURL(t.Context(), u, driver.Options{})
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; expected an invalid argument that names %q and shows no token", raw, err, want)
		}
	}
	u, err := url.Parse("pulsar://:hunter2@127.0.0.1:1?web=http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenURL(t.Context(), u, driver.Options{}); !errors.Is(err, fault.Unavailable) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a cluster that is not there: %v", err)
	}
}

// The web service may answer where the broker does not.
func TestABrokerThatIsNotThereIsToldAtOnce(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) }))
	t.Cleanup(web.Close)
	u, err := url.Parse("pulsar://:hunter2@127.0.0.1:1?web=" + web.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenURL(t.Context(), u, driver.Options{})
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v; expected that it is unavailable, names the broker and shows no token", err)
	}
}

func TestARefusedTokenIsNamedAndNotShown(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hunter2" {
			t.Errorf("the token was sent as %q", r.Header.Get("Authorization"))
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(web.Close)
	u, err := url.Parse("pulsar://:hunter2@127.0.0.1:1?web=" + web.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenURL(t.Context(), u, driver.Options{})
	if fault.ExitCode(err) != fault.ExitFailure || !strings.Contains(err.Error(), "token") || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v; expected a failure that names the refused token and does not show it", err)
	}
}

// Of two processes that make a topic at once, the one that is told that it exists may not find it yet.
func TestATopicThatOthersJustMakeIsWaitedFor(t *testing.T) {
	t.Parallel()
	var looks atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPut:
			w.WriteHeader(http.StatusConflict)
		case http.MethodGet:
			if looks.Add(1) < 3 {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			_, _ = w.Write([]byte(`{"partitions":3,"properties":{"` + configProperty + `":"{\"Name\":\"t\",\"Partitions\":3}","` + readyProperty + `":"1"}}`))
		}
	}))
	t.Cleanup(server.Close)
	l := newLog(Config{}, nil, &admin{web: &web{bases: []string{server.URL}, client: server.Client(), token: func() (string, error) { return "", nil }, patience: hostPatience}})
	if err := l.CreateTopic(t.Context(), driver.TopicConfig{Name: "t", Partitions: 3}); err != nil || looks.Load() != 3 {
		t.Errorf("after %d looks: %v; expected that it is there at the third", looks.Load(), err)
	}
	if err := l.CreateTopic(t.Context(), driver.TopicConfig{Name: "t", Partitions: 2}); !errors.Is(err, fault.Exists) {
		t.Errorf("with another shape: %v; expected that it exists", err)
	}
}
