package group

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/internal/fault"
)

// People know a unit as a partition of the topic.
func (m *member) log() *slog.Logger {
	return m.cfg.Logger.With("group", m.cfg.Group, "member", m.cfg.Member)
}

// report passes the core's news on to the log and to the Events.
func (m *member) report(r *core.Report) {
	ev, log := &m.cfg.Events, m.log()
	switch r.Kind {
	case core.Joined:
		m.joined = true
		log.Info("joined", "incarnation", m.cfg.Incarnation)
		if ev.Joined != nil {
			ev.Joined(m.cfg.Incarnation)
		}
	case core.Assigned:
		log.Info("partition assigned", "partition", r.Unit, "epoch", r.Epoch, "from", r.From, "why", r.Text)
		if ev.Assigned != nil {
			ev.Assigned(r.Unit, r.Epoch, r.From, r.Text)
		}
	case core.HandedOver:
		log.Info("partition handed over", "partition", r.Unit, "epoch", r.Epoch, "to", r.To, "why", r.Text)
		if ev.HandedOver != nil {
			ev.HandedOver(r.Unit, r.Epoch, r.To, r.Text)
		}
	case core.Fenced:
		if r.To == m.cfg.Member {
			log.Info("partition begins a new epoch", "partition", r.Unit, "epoch", r.Epoch, "why", r.Text)
		} else {
			log.Warn("partition lost", "partition", r.Unit, "epoch", r.Epoch, "to", r.To, "why", r.Text)
		}
		if ev.Fenced != nil {
			ev.Fenced(r.Unit, r.Epoch, r.Text)
		}
	case core.Committed:
		if ev.Committed != nil {
			ev.Committed(r.Unit, r.Epoch)
		}
	case core.Paused:
		log.Warn("paused", "why", r.Text)
		if ev.Paused != nil {
			ev.Paused(r.Text)
		}
	case core.Trouble:
		m.trouble(r)
		if ev.Trouble != nil {
			ev.Trouble(r.Unit, r.Text, r.Err)
		}
	case core.Planned:
		log.Info("assignment written", "why", r.Text)
	}
}

// trouble logs a failure: at once when it is new, then now and then while it lasts. One that only
// an operator can end is an error.
func (m *member) trouble(r *core.Report) {
	repeated, tell := m.throttle.ask(r, time.Now())
	if !tell {
		return
	}
	level, attrs := slog.LevelWarn, []slog.Attr{}
	if r.Unit >= 0 {
		attrs = append(attrs, slog.Int("partition", r.Unit), slog.Int64("epoch", r.Epoch))
	}
	if r.Err != nil {
		attrs = append(attrs, slog.Any("error", r.Err))
	}
	if repeated > 0 {
		attrs = append(attrs, slog.Int("repeated", repeated))
	}
	if errors.Is(r.Err, fault.Corrupt) || errors.Is(r.Err, fault.OutOfRange) {
		level = slog.LevelError
	}
	m.log().LogAttrs(context.Background(), level, r.Text, attrs...) //nolint:sloglint // the core has words for what happened
}

// tellEvery is how often the same trouble is logged.
const tellEvery = 10 * time.Second

// throttle keeps repeated trouble out of the log. The zero value has heard of none.
type throttle struct{ heard map[int]heard } // by unit

// heard is the latest trouble of a unit.
type heard struct {
	what  string
	at    time.Time // it was told
	since int       // how often it came again, untold
}

// ask reports whether to log r now, and how often it came unlogged before.
func (h *throttle) ask(r *core.Report, now time.Time) (repeated int, tell bool) {
	what := r.Text // differs from one time to the next when it names a pause
	if r.Err != nil {
		what = r.Err.Error()
	}
	last, again := h.heard[r.Unit]
	again = again && last.what == what
	if again && now.Sub(last.at) < tellEvery {
		last.since++
		h.heard[r.Unit] = last
		return 0, false
	}
	if h.heard == nil {
		h.heard = map[int]heard{}
	}
	h.heard[r.Unit] = heard{what: what, at: now}
	if !again {
		return 0, true
	}
	return last.since, true
}
