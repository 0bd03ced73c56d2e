package redisregistry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/ringfence/ringfence/internal/fault"
)

// dialError marks the failure of a dial, so nothing was sent.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// refusals are the answers which prove that the server did nothing.
// docs/design/stores.md says how we know.
var refusals = []struct {
	prefix string
	kind   error
}{
	{"LOADING", fault.Unavailable},     // it reads its data after a start
	{"READONLY", fault.Unavailable},    // it is a replica: the failover has not reached us
	{"MASTERDOWN", fault.Unavailable},  //
	{"CLUSTERDOWN", fault.Unavailable}, //
	{"TRYAGAIN", fault.Unavailable},    // the slot is moving
	{"MISCONF", fault.Unavailable},     // it can't persist
	{"NOREPLICAS", fault.Unavailable},  // min-replicas-to-write
	{"OOM", fault.Unavailable},         // maxmemory
	{"BUSY", fault.Unavailable},        // a script hangs
	{"WRONGPASS", fault.Unavailable},   // the password may be set at any time
	{"NOAUTH", fault.Unavailable},
	{"NOPERM", fault.Unavailable},
	{"The user executing the script", fault.Unavailable}, // may not use a command, key or channel
	{"ACL failure in script", fault.Unavailable},         // the same, since 7.2
	{"max number of clients", fault.Unavailable},
	{"invalid password", fault.Unavailable},
	{"DB index is out of range", fault.Invalid},
	{"unknown command", fault.Unavailable}, // it was renamed, or a proxy does not pass it on
}

// missing are answers of a server that keeps a command from the registry.
var missing = []string{"NOPERM", "unknown command", "Unknown Redis command", "The user executing the script can't run", "ACL failure in script"}

// advice is what helps against an answer of the server; "": nothing that is known.
func advice(answer string) string {
	for _, m := range missing {
		if strings.Contains(answer, m) {
			return "the server denies the registry a command, key or channel; it needs EVALSHA, EVAL and what its scripts call: give the user its rights (docs/guide/security.md), " +
				"take a rename-command of it out of the server's configuration, or use another server: "
		}
	}
	return ""
}

// classify gives an error its kind; silent is the kind if a request may have been sent and got no answer.
func classify(what string, err error, silent error) error {
	var refused *rueidis.RedisError
	var unsent *dialError
	kind, help := silent, ""
	if errors.As(err, &refused) {
		help = advice(refused.Error())
	}
	switch {
	case errors.As(err, &refused) && midway(refused.Error()):
	case errors.As(err, &refused):
		kind = fault.Corrupt // an answer that nothing else explains
		for _, r := range refusals {
			if strings.Contains(refused.Error(), r.prefix) {
				kind = r.kind
				break
			}
		}
	case errors.As(err, &unsent):
		kind = fault.Unavailable
	case errors.Is(err, rueidis.ErrClosing):
		kind = fault.Closed
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("redis registry: %s: %w: %w", what, silent, err)
	}
	return fmt.Errorf("redis registry: %s: %w: %s%w", what, kind, help, err)
}

// midway reports whether a command of the script is missing. An earlier command of it may have written.
func midway(answer string) bool {
	return strings.Contains(answer, "Unknown Redis command called from") ||
		strings.Contains(answer, "The user executing the script can't run") ||
		strings.Contains(answer, "ACL failure in script") && strings.Contains(answer, "permissions to run the") // since 7.2
}
