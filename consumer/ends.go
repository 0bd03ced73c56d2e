package consumer

import (
	"context"
	"fmt"
	"sync"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// endsChecker holds the ends of sealed partitions that the definition of the topic has against those of the
// log. A unit is finished at the one of the definition: by a wrong one its records would be passed over in
// silence, or those that come after would never begin.
type endsChecker struct {
	topic   *topic.Topic
	changed chan struct{}         // the definition has; room for one
	checked map[partitionID]int64 // the end that was the log's
}

// endsAtOnce is how many partitions are asked for together.
const endsAtOnce = 8

func newEndsChecker(t *topic.Topic) *endsChecker {
	return &endsChecker{topic: t, changed: make(chan struct{}, 1), checked: map[partitionID]int64{}}
}

// look has the definition looked at again.
func (c *endsChecker) look() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// run checks each end, once unless it changes, until ctx ends: nil. It is fault.Corrupt when one is another than in the log.
func (c *endsChecker) run(ctx context.Context) error {
	for {
		if err := c.check(ctx); err != nil {
			return err
		}
		select {
		case <-c.changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *endsChecker) check(ctx context.Context) error {
	doc := c.topic.Document()
	var asked []partitionID
	for storage := doc.Left(); storage < doc.Produce; storage++ {
		for p := range doc.Storage[storage].Partitions {
			at := partitionID{storage, p}
			if end, known := c.checked[at]; !known || end != doc.End(storage, p) {
				asked = append(asked, at)
			}
		}
	}
	errs, same := make([]error, len(asked)), make([]bool, len(asked))
	limit := make(chan struct{}, endsAtOnce)
	var looks sync.WaitGroup
	for i, at := range asked {
		limit <- struct{}{}
		looks.Go(func() { // joined below
			same[i], errs[i] = c.compare(ctx, doc, at)
			<-limit
		})
	}
	looks.Wait()
	for i, at := range asked {
		if same[i] {
			c.checked[at] = doc.End(at.storage, at.partition)
		}
	}
	return firstOf(errs)
}

// firstOf is the first error that there is.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// compare says whether a partition ends where the definition says. It does not know yet, without an error, of one
// that the log does not tell of now.
func (c *endsChecker) compare(ctx context.Context, doc *topic.Document, at partitionID) (same bool, _ error) {
	log, err := c.topic.Storage(at.storage)
	if err != nil {
		return false, nil //nolint:nilerr // it is retired by now
	}
	b, err := log.Bounds(ctx, at.partition)
	if err != nil || !b.Sealed || b.First == b.Next { // where nothing is kept, nothing is left out
		return false, nil //nolint:nilerr // who reads it is told
	}
	if end := doc.End(at.storage, at.partition); end != b.Next {
		return false, fmt.Errorf("registry key \"topics/%s\": partition %d of storage topic %d ends at offset %d in this definition, and at %d in the log: somebody else wrote that, and a group that goes by it would leave records out; put the ends of that storage topic right there: %w",
			doc.Name, at.partition, at.storage, end, b.Next, fault.Corrupt)
	}
	return true, nil
}
