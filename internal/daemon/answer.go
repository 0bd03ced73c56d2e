package daemon

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/ringfence/ringfence/api"
)

func answer(w http.ResponseWriter, status int, out any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(out) // the client is gone
	return nil
}

// refuse answers with the problem that err is.
func (d *Daemon) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errAnswered) {
		return
	}
	p := *api.ProblemOf(err)
	p.Instance = r.URL.Path
	if p.Status >= http.StatusInternalServerError {
		d.config.Logger.Warn("a request failed", "method", r.Method, "path", r.URL.Path, "status", p.Status, "error", err)
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", api.ProblemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(&p) // the client is gone
}

// errAnswered ends a handler whose answer has begun.
var errAnswered = errors.New("answered")
