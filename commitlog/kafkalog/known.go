package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// A broker applies what it reads of the metadata log in batches, and one step after another: of one
// batch, first it answers with its settings, then it begins to lead what it was elected for,
// and only then the appends go by the new settings. So a broker that tells of a seal may still be
// about to lead without obeying it, if the seal and its election came in one batch. But it takes a
// batch only when it is through with the one before. So there is a mark, which is set after every
// broker told of the seal: a broker that tells of the mark as well has obeyed the seal since before.

// sealMark is a setting that means nothing on a topic that is not compacted, and says at sealMarked
// that all brokers were seen to know the seal.
const (
	sealMark   = "min.compaction.lag.ms"
	sealMarked = "24225" // 0x5ea1
)

// knownPatience is how long the brokers may take. One that died is declared dead by the controller
// within broker.session.timeout.ms, 9 s by default, and not waited for then.
const knownPatience = 30 * time.Second

// known waits until each broker that may lead a partition of the sealed topic refuses every append,
// and returns leader epochs by partition: a leader of a lower one is deposed, and may not know.
//
// A broker that the controller fenced can't lead. It is not waited for if it does not answer: a broker that
// comes back has to read the metadata log before it may lead. See docs/design/seal-and-growth.md.
func (s *store) known(ctx context.Context) ([]int32, error) {
	limited, cancel := context.WithTimeout(ctx, knownPatience)
	defer cancel()
	marked := false
	_, err := s.everywhere(limited, func(settings map[string]string) bool {
		marked = marked || settings[sealMark] == sealMarked
		return limitOf(settings) == 0
	})
	if err == nil && !marked {
		err = s.set(limited, map[string]string{sealMark: sealMarked})
	}
	var epochs []int32
	if err == nil {
		epochs, err = s.everywhere(limited, func(settings map[string]string) bool { return settings[sealMark] == sealMarked })
	}
	switch {
	case err == nil:
		return epochs, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %v", ctx.Err(), err) //nolint:errorlint // that of the context is the kind
	case limited.Err() != nil && !isFault(err): // ours ended, which is no error of the caller's context
		return nil, fmt.Errorf("%w: the brokers did not all take the seal within %v: %v", fault.Unavailable, knownPatience, err) //nolint:errorlint // see above
	}
	return nil, err
}

// view is what one broker says.
type view struct {
	broker   int32
	err      error // it does not answer
	settings map[string]string
	meta     topicMeta
}

// everywhere asks the brokers of the topic again and again, until each has settings that fit, or
// one of those that have says that the broker is fenced. The result are the highest leader epochs
// that they know.
func (s *store) everywhere(ctx context.Context, fit func(map[string]string) bool) ([]int32, error) {
	for n := 0; ; n++ {
		gone := s.refresh(ctx) // the replicas may have moved
		if errors.Is(gone, fault.NotFound) {
			return nil, gone
		}
		views := s.views(ctx)
		epochs := make([]int32, len(s.parts))
		var fenced []int32
		var late error
		for i := range views {
			v := &views[i]
			if v.err != nil || !fit(v.settings) {
				continue
			}
			fenced = append(fenced, v.meta.offline...)
			if !slices.Equal(v.meta.replicas, s.meta.Load().replicas) {
				late = errors.New("replicas are being moved")
			}
			for p := range epochs {
				_, e := v.meta.leader(p)
				epochs[p] = max(epochs[p], e)
			}
		}
		for _, v := range views {
			switch {
			case v.err != nil && !slices.Contains(fenced, v.broker):
				late = fmt.Errorf("broker %d does not answer: %w", v.broker, v.err)
			case v.err == nil && !fit(v.settings):
				late = fmt.Errorf("broker %d has not heard of the seal", v.broker)
			}
		}
		if late == nil && len(views) > 0 {
			return epochs, nil
		}
		if ctx.Err() == nil {
			sleep(ctx, n)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: waited for %v: %w", fault.Unavailable, knownPatience, errors.Join(late, gone))
		}
	}
}

// views asks each broker that has a replica.
func (s *store) views(ctx context.Context) []view {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	brokers := s.meta.Load().replicas
	views := make([]view, len(brokers))
	var wg sync.WaitGroup
	for i, id := range brokers {
		wg.Go(func() {
			v := view{broker: id}
			if v.settings, v.err = s.settingsAt(ctx, id); v.err == nil {
				v.meta, v.err = s.metaAt(ctx, id)
			}
			views[i] = v
		})
	}
	wg.Wait()
	return views
}
