package demo

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/history"
)

// Endpoint is the receiver of the demo of deliveries: a process that is killed now and then.
type Endpoint struct {
	Addr   string
	Folder string // where it writes down what it takes
	Forget bool   // it loses a record that it answers for: the judgement has to find that
}

const mended = "mended"

func (e *Endpoint) seen() string { return filepath.Join(e.Folder, "seen") }

// Serve answers until ctx ends. It writes each record down before it answers that it took it.
func (e *Endpoint) Serve(ctx context.Context) error {
	seen, err := os.OpenFile(e.seen(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = seen.Close() }() // each line was checked
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", e.Addr)
	if err != nil {
		return err
	}
	server := http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(e.take(seen, r))
	})}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); ctx.Err() == nil || !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// take is what it does with one request; the status that it answers.
func (e *Endpoint) take(seen io.Writer, r *http.Request) int {
	if r.Method == http.MethodGet {
		return http.StatusOK
	}
	value, err := io.ReadAll(io.LimitReader(r.Body, 1<<10))
	key := r.Header.Get("Ringfence-Key")
	if err != nil || e.refuses(key, string(value)) || hiccup(key, string(value), r.Header.Get("Ringfence-Attempt")) {
		return http.StatusInternalServerError
	}
	if e.Forget && key == keyOf(3) && string(value) == "7" {
		return http.StatusNoContent
	}
	if _, err := fmt.Fprintf(seen, "%s %s\n", key, value); err != nil {
		return http.StatusInternalServerError
	}
	return http.StatusNoContent
}

// refuses says whether it is the poison, until somebody mended the endpoint.
func (e *Endpoint) refuses(key, value string) bool {
	if key != poisonKey || value != strconv.Itoa(poisonNumber) {
		return false
	}
	_, err := os.Stat(filepath.Join(e.Folder, mended))
	return err != nil
}

// hiccup says whether an attempt is one of the tenth that fail: of ten in a row at one record, one is.
func hiccup(key, value, attempt string) bool {
	n, err := strconv.ParseUint(attempt, 10, 32)
	if err != nil {
		return true
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, key+" "+value) // a hash has no errors
	return (h.Sum64()+n)%10 == 0
}

// taken reads what was written down so far; a line that is being written is not there yet.
func (e *Endpoint) taken() ([]history.Arrival, error) {
	data, err := os.ReadFile(e.seen())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	lines := strings.Split(string(data), "\n")
	all := make([]history.Arrival, 0, len(lines))
	for _, line := range lines[:len(lines)-1] {
		key, value, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(value)
		if err != nil {
			return nil, fmt.Errorf("the endpoint wrote %q; expected a key and a number", line)
		}
		all = append(all, history.Arrival{Key: key, Number: n})
	}
	return all, nil
}
