package group

import (
	"log/slog"

	"github.com/ringfence/ringfence/group/core"
)

func (m *member) log() *slog.Logger {
	return m.cfg.Logger.With("group", m.cfg.Group, "member", m.cfg.Member)
}

// report passes the core's news on to the log and to whoever listens.
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
		log.Info("unit assigned", "unit", r.Unit, "epoch", r.Epoch, "from", r.From, "why", r.Text)
		if ev.Assigned != nil {
			ev.Assigned(r.Unit, r.Epoch, r.From, r.Text)
		}
	case core.Moved:
		log.Info("unit handed over", "unit", r.Unit, "epoch", r.Epoch, "to", r.To, "why", r.Text)
		if ev.Moved != nil {
			ev.Moved(r.Unit, r.Epoch, r.To, r.Text)
		}
	case core.Fenced:
		log.Warn("unit fenced", "unit", r.Unit, "epoch", r.Epoch, "why", r.Text)
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
		log.Warn("trouble", "unit", r.Unit, "what", r.Text, "error", r.Err)
		if ev.Trouble != nil {
			ev.Trouble(r.Unit, r.Text, r.Err)
		}
	case core.Planned:
		log.Info("assignment written", "why", r.Text)
	}
}
