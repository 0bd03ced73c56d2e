package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
)

// The error of a store that can't be reached ends with what to do, whichever store it is.
func TestUnreachableStoreSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for text, flag := range map[string]string{
		"open registry redis://127.0.0.1:1: redis registry: connecting to 127.0.0.1:1: unavailable: dial tcp 127.0.0.1:1: connect: connection refused": "registry",
		"open registry postgres://db/app: failed to connect to `user=x`: hostname resolving error: lookup db: no such host":                            "registry",
		"gave up after 5s (--timeout): open log kafka://h:1: the last answer: unable to dial: dial tcp: connect: connection refused":                   "log",
		"open log pulsar://h:6650: dial tcp 10.0.0.1:6650: i/o timeout":                                                                                "log",
		"open registry etcd://h:1: NOAUTH":         "",
		"produce to topic t: connection refused":   "",
		"open log file:///data: permission denied": "",
	} {
		cause := fmt.Errorf("%s: %w", text, fault.Unavailable)
		got := newApp(nil, nil, nil).whereToLook(cause).Error()
		told := strings.HasSuffix(got, "; start that server, or name another one with --"+flag)
		if told != (flag != "") || !strings.HasPrefix(got, cause.Error()) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	if err := newApp(nil, nil, nil).whereToLook(nil); err != nil {
		t.Error(err)
	}
}
