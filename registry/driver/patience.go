package driver

import "time"

// Patience is a Registry that notices a death by the TTL of a session alone.
type Patience interface {
	// SessionTTL is the shortest TTL that the store keeps well, and the default.
	SessionTTL() time.Duration
}
