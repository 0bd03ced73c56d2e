package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/internal/vfs"
)

func (a *app) logger() *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.global.logLevel)); err != nil {
		level = slog.LevelWarn // settle has refused it already
	}
	return slog.New(once{slog.NewTextHandler(redacted{a.stderr}, &slog.HandlerOptions{Level: level}), &a.told})
}

// redacted passes lines of a log on without the passwords in them: an attribute may be anybody's error.
type redacted struct{ io.Writer }

func (r redacted) Write(line []byte) (int, error) {
	if _, err := io.WriteString(r.Writer, storeurl.RedactAll(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// library is where packages write that know of no other logger than the standard library's, as net/http does:
// each message becomes a line of ours, and shows what an error would. A server can have them write without
// an end, such as by frames of HTTP/2 that nobody knows; so those beyond a few are counted only.
type library struct {
	app *app

	mu           sync.Mutex
	since        time.Time
	told, untold int // since then
}

const (
	libraryLines = 10 // that are shown in each stretch of libraryEvery
	libraryEvery = 10 * time.Second
)

func (l *library) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	more := ""
	if now := time.Now(); now.Sub(l.since) >= libraryEvery {
		if l.untold > 0 {
			more = fmt.Sprintf(" (and %d more messages until now)", l.untold)
		}
		l.since, l.told, l.untold = now, 0, 0
	}
	if l.told == libraryLines {
		l.untold++
		return len(text), nil
	}
	l.told++
	_, err := fmt.Fprintln(l.app.stderr, "ringfence: a library says: "+l.app.shown(strings.TrimRight(string(text), "\n"))+more)
	return len(text), err
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
