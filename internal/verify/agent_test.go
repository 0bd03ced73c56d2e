package verify

import (
	"context"
	"errors"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
)

// A process that is asked to leave while it opens its stores has not failed, whatever their clients make of that:
// some say that they were closed, and not why.
func TestServeEndsCleanlyWhenAskedWhileItOpens(t *testing.T) {
	t.Parallel()
	for _, says := range []error{fault.Closed, fault.Unavailable, errors.New("no")} {
		ctx, ask := context.WithCancel(t.Context())
		open := func(context.Context) (*ringfence.Client, error) { return nil, says }
		if err := Serve(ctx, Spec{}, open, nil); !errors.Is(err, says) {
			t.Errorf("nobody asked it to leave, and %v is %v", says, err)
		}
		ask()
		if err := Serve(ctx, Spec{}, open, nil); err != nil {
			t.Errorf("it was asked to leave, and ended with %v", err)
		}
	}
}
