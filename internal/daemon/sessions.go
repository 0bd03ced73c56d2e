package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/remote"
)

func (d *Daemon) sessions(t *table) {
	onStream(t, &api.V1.JoinGroup, func(w http.ResponseWriter, r *request, in *api.JoinGroup) error {
		p := paramsOf(&in.Body.NewWorker)
		p.Group, p.Topic, p.From, p.Member, p.Weight, p.Zone = in.Group, in.Body.Topic, in.Body.From, in.Body.Member, in.Body.Weight, in.Body.Zone
		p.Drain = time.Duration(in.Body.DrainMS) * time.Millisecond
		return begin(w, r, p)
	})
	onStream(t, &api.V1.Work, func(w http.ResponseWriter, r *request, in *api.Work) error {
		p := paramsOf(&in.Body)
		p.Subscription = in.Subscription
		return begin(w, r, p)
	})
	onStream(t, &api.V1.ReadSession, func(w http.ResponseWriter, r *request, in *api.ReadSession) error {
		s, err := d.session(r, in.Session)
		if err != nil {
			return err
		}
		page, err := s.Page(r.Context(), in.After, time.Duration(in.WaitMS)*time.Millisecond)
		if err != nil {
			return gone(err)
		}
		w.Header().Set("Content-Type", linesType)
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(page) // what does not arrive is read again
		return nil
	})
	t.add(&api.V1.AnswerSession.Route, func(w http.ResponseWriter, r *request) error {
		s, err := d.session(r, r.names("session"))
		if err != nil {
			return err
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limits.AnswersBytes))
		if err != nil {
			return bodyError(err)
		}
		reply, err := s.Answer(body)
		if err != nil {
			return gone(err)
		}
		return answer(w, http.StatusOK, json.RawMessage(reply))
	})
	on(t, &api.V1.EndSession, func(r *request, in *api.SessionRef) (api.None, error) {
		s, err := d.session(r, in.Session)
		if err == nil {
			err = gone(s.Delete())
		}
		return api.None{}, err
	})
}

func paramsOf(n *api.NewWorker) remote.Params {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	return remote.Params{Window: n.Window, WindowBytes: n.WindowBytes, TTL: ms(n.TTLMS), Within: ms(n.AnswerWithinMS)}
}

// begin opens a session, and streams its lines if that is wanted.
func begin(w http.ResponseWriter, r *request, p remote.Params) error {
	p.Paged = !strings.Contains(r.Header.Get("Accept"), linesType)
	p.Owner = r.principal.ID
	s, err := r.rf.hub.Open(r.Context(), p)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", linesType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	if p.Paged {
		first, err := s.Page(r.Context(), 0, 0)
		if err == nil {
			_, err = w.Write(first)
		}
		if err != nil {
			return errors.Join(err, s.Delete())
		}
		return nil
	}
	out := http.NewResponseController(w)
	_ = s.Stream(r.Context(), func(lines []byte) error { // its end is told in the stream, or met by the client
		_ = out.SetWriteDeadline(time.Now().Add(writeTime)) // a recorder of tests has none
		if _, err := w.Write(lines); err != nil {
			return err
		}
		return out.Flush()
	})
	return nil
}

// session is a session of the principal, in whatever namespace.
func (d *Daemon) session(r *request, id string) (*remote.Session, error) {
	d.mu.Lock()
	hubs := make([]*remote.Hub, 0, len(d.namespaces))
	for _, n := range d.namespaces {
		hubs = append(hubs, n.hub)
	}
	d.mu.Unlock()
	err := error(&remote.GoneError{ID: id})
	for _, h := range hubs {
		s, found := h.Find(id)
		if s != nil && s.Params().Owner == r.principal.ID {
			return s, nil
		}
		var g *remote.GoneError
		if errors.As(found, &g) && g.Why != "" {
			err = found
		}
	}
	return nil, gone(err)
}

// gone is the problem of a session that is over.
func gone(err error) error {
	var g *remote.GoneError
	if !errors.As(err, &g) {
		if errors.Is(err, context.Canceled) {
			return errAnswered
		}
		return err
	}
	p := *api.ProblemOf(fault.NotFound)
	p.Status, p.Detail, p.Why, p.RetryMS = http.StatusGone, g.Error(), g.Why, g.Retry.Milliseconds()
	return &p
}
