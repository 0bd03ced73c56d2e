package cli

import (
	"time"

	"github.com/ringfence/ringfence/api"
)

// timeOf is a time for people, also when it is 0.
func timeOf(millis int64) string { return string(api.TimeOf(time.UnixMilli(millis))) }
