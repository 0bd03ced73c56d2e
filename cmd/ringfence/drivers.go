package main

import (
	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/registry/redisregistry"
)

// backends is the explicit list of stores that this binary knows besides file: and mem:, which
// the library brings along. A store that is not in this list is not in the binary.
func backends() []ringfence.Backend {
	return []ringfence.Backend{
		{Scheme: "redis", OpenRegistry: redisregistry.OpenURL},
		{Scheme: "rediss", OpenRegistry: redisregistry.OpenURL},
	}
}
