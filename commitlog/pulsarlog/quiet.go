package pulsarlog

import (
	"context"
	"log/slog"
)

// quiet lets the client's messages through as information at most. It warns at each of its tries
// to connect; what comes of them is returned as errors.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return q.Handler.Enabled(ctx, min(l, slog.LevelInfo))
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = min(r.Level, slog.LevelInfo)
	return q.Handler.Handle(ctx, r) //nolint:wrapcheck // the handler's own
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }
