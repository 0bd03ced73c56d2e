package driver

import "time"

// Patience is what a Registry may be where nothing but its TTL ends the session of a process that
// died: it says how long that should be when nobody asks for a time.
type Patience interface {
	// SessionTTL is the shortest TTL that the store keeps well.
	SessionTTL() time.Duration
}
