package main

import "github.com/ringfence/ringfence"

// backends is the explicit list of stores that this binary knows besides file: and mem:, which
// the library brings along. A store that is not in this list is not in the binary.
func backends() []ringfence.Backend {
	return nil
}
