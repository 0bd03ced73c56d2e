package cli

import (
	"errors"
	"io"
	"log"
	"strings"
	"testing"
)

// What a package logs by itself, and what an attribute of ours holds, is shown as an error would be.
func TestNoLogShowsASecret(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	a := newApp(nil, io.Discard, &out)
	a.global.logLevel = "debug"
	log.New(library{a}, "", 0).Printf("Unsolicited response on %s: \x1b]0;%q\nme:%s@h", "redis://:hunter2@h", "password=hunter2", "hunter2")
	a.logger().Warn("it failed", "error", errors.New(`dial "host=h password=hunter2": redis://hunter2@h`), "address", "me:hunter2@h")
	got := out.String()
	if strings.Contains(got, "hunter2") || strings.ContainsRune(got, 0x1b) || strings.Count(got, "\n") != 2 || !strings.Contains(got, "Unsolicited response on redis://:xxxxx@h") {
		t.Errorf("%q", got)
	}
}
