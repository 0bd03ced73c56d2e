package peer

import (
	"context"

	"github.com/ringfence/ringfence/internal/measure"
)

// raw is the floor that nothing which syncs each append can go below: one block at a time.
type raw struct {
	*measure.Raw
	block int
	sync  bool
}

func openRaw(_ context.Context, o Options) (Store, error) { return newRaw(o, measure.RawBlock) }

// NewRawBandwidth is raw with writes as large as they have to be for the bandwidth of synced writes.
func NewRawBandwidth(dir string) (Store, error) {
	return newRaw(Options{Dir: dir, Durability: Sync}, measure.RawLarge)
}

func newRaw(o Options, block int) (Store, error) {
	r, err := measure.NewRaw(o.Dir)
	return raw{r, block, o.Durability == Sync}, err
}

func (r raw) Appender() (Append, error) {
	return func(context.Context, [][]byte) error { return r.Write(r.block, r.sync) }, nil
}
