package cli

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/storeurl"
)

func (a *app) logger() *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.global.logLevel)); err != nil {
		level = slog.LevelWarn // settle has refused it already
	}
	return slog.New(slog.NewTextHandler(redacted{a.stderr}, &slog.HandlerOptions{Level: level}))
}

// redacted passes lines of a log on without the passwords in them: an attribute may be an error of any library.
type redacted struct{ io.Writer }

func (r redacted) Write(line []byte) (int, error) {
	if _, err := io.WriteString(r.Writer, storeurl.RedactAll(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// library is where packages write that know of no other logger than the standard library's, as net/http does:
// each message becomes a line of ours, and shows what an error would. A server can have them write without
// an end, such as by unknown frames of HTTP/2; so messages beyond a few are only counted.
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
