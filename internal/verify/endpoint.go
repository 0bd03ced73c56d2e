package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/history"
)

// serveEndpoint is the receiver of "demo --deliver": an endpoint that answers as deliver's handler does.
func (s *Spec) serveEndpoint(ctx context.Context) error {
	file, err := s.openTaken()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // each line was checked
	e := endpoint{Spec: s, file: file, tokens: map[string]string{}}
	if err := e.remember(); err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.Endpoint)
	if err != nil {
		return err
	}
	server := http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(e.answer(r))
	})}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); ctx.Err() == nil || !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// endpoint is a receiver that fences, by the one rule for all: it keeps the highest token of each key and refuses
// lower ones.
type endpoint struct {
	*Spec
	file *os.File

	mu     sync.Mutex
	tokens map[string]string // by key, of what is in the file
}

// remember reads what an endpoint took that was killed.
func (e *endpoint) remember() error {
	all, err := os.ReadFile(e.file.Name())
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	for line := range strings.Lines(string(all)) {
		if a, ok := arrival(strings.TrimSuffix(line, "\n")); ok {
			e.tokens[a.Key] = max(e.tokens[a.Key], a.Token)
		}
	}
	return nil
}

// answer takes one request, and returns its status. A record is written down before the answer says so.
func (e *endpoint) answer(r *http.Request) int {
	if r.Method == http.MethodGet {
		return http.StatusOK
	}
	value, err := io.ReadAll(io.LimitReader(r.Body, 1<<10))
	header := r.Header.Get
	attempt, notANumber := strconv.Atoi(header("Ringfence-Attempt"))
	key, n := header("Ringfence-Key"), sequenceOf(value)-1
	if err = errors.Join(err, notANumber, e.refusal(key, n, attempt)); err != nil {
		return http.StatusInternalServerError
	}
	place := header("Ringfence-Storage") + "/" + header("Ringfence-Partition") + "/" + header("Ringfence-Offset")
	return e.write(history.Arrival{Key: key, Number: int(n), Place: place, Token: header("Ringfence-Token")})
}

// write writes a record down that no later one of its key has overtaken.
func (e *endpoint) write(a history.Arrival) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(a.Token) != 32 || a.Token < e.tokens[a.Key] {
		return http.StatusServiceUnavailable
	}
	e.tokens[a.Key] = a.Token
	if e.Forget && a.Key == forgottenKey && a.Number == forgottenNumber {
		return http.StatusNoContent
	}
	if err := note(e.file, a); err != nil {
		return http.StatusInternalServerError
	}
	return http.StatusNoContent
}

// The record that an endpoint with Forget answers for and loses.
const (
	forgottenKey    = "customer/3"
	forgottenNumber = 7
)
