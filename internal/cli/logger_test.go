package cli

import (
	"errors"
	"io"
	"log"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What a package logs by itself, and what an attribute of ours holds, is shown as an error would be.
func TestNoLogShowsASecret(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	a := newApp(nil, io.Discard, &out)
	log.New(&library{app: a}, "", 0).Printf("Unsolicited response on %s: \x1b]0;%q\nme:%s@h", "redis://:hunter2@h", "password=hunter2", "hunter2")
	a.global.logLevel = "info"
	a.logger().Warn("it failed", "error", errors.New(`dial "host=h password=hunter2": redis://hunter2@h`), "address", "me:hunter2@h")
	got := out.String()
	if strings.Contains(got, "hunter2") || strings.ContainsRune(got, 0x1b) || strings.Count(got, "\n") != 2 || !strings.HasPrefix(got, "ringfence: a library says: Unsolicited response on redis://:xxxxx@h") {
		t.Errorf("%q", got)
	}
}

// A server can have a package log without an end.
func TestLibraryLogIsCutShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		says := log.New(&library{app: newApp(nil, io.Discard, &out)}, "", 0)
		flood := func() string {
			out.Reset()
			for range 1000 {
				says.Print("unhandled response frame")
			}
			return out.String()
		}
		if got := flood(); strings.Count(got, "\n") != libraryLines || strings.Contains(got, "more") {
			t.Errorf("at first: %q; expected %d lines", got, libraryLines)
		}
		if got := flood(); got != "" {
			t.Errorf("at once again: %q; expected nothing", got)
		}
		time.Sleep(libraryEvery)
		if got := flood(); strings.Count(got, "\n") != libraryLines || !strings.Contains(got, "frame (and 1990 more messages until now)\n") {
			t.Errorf("later: %q; expected %d lines, and how many were left out", got, libraryLines)
		}
	})
}
