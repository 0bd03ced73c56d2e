package verify

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// serveEndpoint is the receiver of "demo --deliver": an endpoint that answers as deliver's handler does.
func (s *Spec) serveEndpoint(ctx context.Context) error {
	file, err := s.openTaken()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // each line was checked
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.Endpoint)
	if err != nil {
		return err
	}
	server := http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(s.answer(file, r))
	})}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); ctx.Err() == nil || !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// answer takes one request, and returns its status. A record is written down before the answer says so.
func (s *Spec) answer(file *os.File, r *http.Request) int {
	if r.Method == http.MethodGet {
		return http.StatusOK
	}
	value, err := io.ReadAll(io.LimitReader(r.Body, 1<<10))
	attempt, notANumber := strconv.Atoi(r.Header.Get("Ringfence-Attempt"))
	key, n := r.Header.Get("Ringfence-Key"), sequenceOf(value)-1
	if err = errors.Join(err, notANumber, s.refusal(key, n, attempt)); err == nil && !(s.Forget && key == forgottenKey && n == forgottenNumber) {
		header := r.Header.Get
		err = note(file, key, n, header("Ringfence-Storage")+"/"+header("Ringfence-Partition")+"/"+header("Ringfence-Offset"))
	}
	if err != nil {
		return http.StatusInternalServerError
	}
	return http.StatusNoContent
}

// The record that an endpoint with Forget answers for and loses.
const (
	forgottenKey    = "customer/3"
	forgottenNumber = 7
)
