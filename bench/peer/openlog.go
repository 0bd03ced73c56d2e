package peer

import (
	"context"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
)

// openLog opens the log in o.Dir.
func openLog(ctx context.Context, o Options) (*commitlog.Log, error) {
	level := driver.OS
	if o.Durability == Sync {
		level = driver.Sync
	}
	return filelog.Open(ctx, filelog.Config{Dir: o.Dir, Options: driver.Options{Durability: level}})
}
