package peer

import (
	"context"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
)

// openLog opens the log in o.Dir.
func openLog(_ context.Context, _ Options) (*commitlog.Log, error) { return memlog.New(), nil }
