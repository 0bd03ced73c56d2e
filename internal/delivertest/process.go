package delivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/push"
)

const (
	processTest = "TestDeliverProcess" // has to call Process
	jobVariable = "RINGFENCE_TEST_DELIVER"
	mended      = "mended"

	roleDaemon, roleEndpoint = "daemon", "endpoint"
)

// job is what a process is told.
type job struct {
	Role                          string
	Dir, Log, Registry, Namespace string
	Addr                          string // of the endpoint
	Folder                        string // where it writes down what it takes
}

func (j *job) seen() string { return filepath.Join(j.Folder, "seen") }

func (j *job) variable() string {
	text, err := json.Marshal(j)
	if err != nil {
		panic(err) // strings
	}
	return jobVariable + "=" + string(text)
}

// Process is the body of the processes that Run starts. A package that calls Run calls it in a test of its
// own, TestDeliverProcess, with what opens its stores; in an ordinary run it does nothing.
func Process(t testing.TB, backends []ringfence.Backend) {
	text := os.Getenv(jobVariable)
	if text == "" {
		return
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	if j.Role == roleEndpoint {
		t.Fatal(j.endpoint(ctx))
	}
	if err := j.daemon(ctx, backends); err != nil {
		t.Fatal(err)
	}
}

func (j *job) daemon(ctx context.Context, backends []ringfence.Backend) (err error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var rf *ringfence.Client
	for { // a supervisor would start it again while a server restarts
		rf, err = ringfence.Open(ctx, ringfence.Config{Dir: j.Dir, Log: j.Log, Registry: j.Registry, Namespace: j.Namespace, Backends: backends, Logger: logger})
		if err == nil {
			break
		}
		if !errors.Is(err, ringfence.ErrUnavailable) {
			return err
		}
		logger.Warn("a store does not answer; it is opened again", "error", err)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
	defer rf.Close()
	return push.Serve(ctx, rf, &push.ServeOptions{
		Config:    push.Config{AllowNet: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Logger: logger},
		Subscribe: ringfence.SubscribeOptions{SessionTTL: ttl},
		Poll:      100 * time.Millisecond,
	})
}

// endpoint writes each record down before it answers that it took it.
func (j *job) endpoint(ctx context.Context) error {
	seen, err := os.OpenFile(j.seen(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer seen.Close()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", j.Addr)
	if err != nil {
		return err
	}
	server := http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, err := io.ReadAll(r.Body)
		key := r.Header.Get("Ringfence-Key")
		switch {
		case r.Method == http.MethodGet:
			return
		case err != nil, j.refuses(key, string(value)), fails(key, string(value), r.Header.Get("Ringfence-Attempt")):
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if _, err := fmt.Fprintf(seen, "%s %s\n", key, value); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	return server.Serve(l)
}

func (j *job) refuses(key, value string) bool {
	if bad, ok := poison[key]; !ok || strconv.Itoa(bad) != value {
		return false
	}
	_, err := os.Stat(filepath.Join(j.Folder, mended))
	return err != nil
}

// fails says whether an attempt is one of the tenth that fail: of ten in a row at one record, one is.
func fails(key, value, attempt string) bool {
	n, err := strconv.Atoi(attempt)
	if err != nil {
		return true
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, key+" "+value) // a hash has no errors
	return (h.Sum32()+uint32(n))%10 == 0
}
