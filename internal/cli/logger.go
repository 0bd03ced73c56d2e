package cli

import (
	"io"
	"log/slog"
	"strings"

	"github.com/ringfence/ringfence/internal/storeurl"
)

func (a *app) logger() *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.global.logLevel)); err != nil {
		level = slog.LevelWarn // settle has refused it already
	}
	opts := &slog.HandlerOptions{Level: level}
	if a.global.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(redacted{a.stderr}, opts))
	}
	return slog.New(slog.NewTextHandler(redacted{a.stderr}, opts))
}

// redacted passes lines of a log on without the passwords in them: an attribute may be an error of any library.
type redacted struct{ io.Writer }

func (r redacted) Write(line []byte) (int, error) {
	if _, err := io.WriteString(r.Writer, storeurl.RedactAll(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// library is the logger of net/http and its like, which a server can have write without end: it shows at debug only.
type library struct{ app *app }

func (l library) Write(text []byte) (int, error) {
	l.app.logger().Debug("a library says", "text", strings.TrimRight(string(text), "\n"))
	return len(text), nil
}
