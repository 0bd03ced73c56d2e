package cli

import (
	"context"
	"log/slog"
	"sync"

	"github.com/ringfence/ringfence/internal/vfs"
)

func (a *app) logger() *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.global.logLevel)); err != nil {
		level = slog.LevelWarn // settle has refused it already
	}
	return slog.New(once{slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}), &a.told})
}

// once tells of a directory that another user owns a single time: a log and a registry that lie in the
// same place both look at it.
type once struct {
	slog.Handler
	told *sync.Map // the directories
}

func (o once) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == vfs.OwnedAbove {
		var above string
		r.Attrs(func(at slog.Attr) bool {
			if at.Key == "above" {
				above = at.Value.String()
			}
			return true
		})
		if _, told := o.told.LoadOrStore(above, true); told {
			return nil
		}
	}
	return o.Handler.Handle(ctx, r)
}

func (o once) WithAttrs(attrs []slog.Attr) slog.Handler {
	return once{o.Handler.WithAttrs(attrs), o.told}
}

func (o once) WithGroup(name string) slog.Handler { return once{o.Handler.WithGroup(name), o.told} }
