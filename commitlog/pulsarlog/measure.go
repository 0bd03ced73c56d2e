package pulsarlog

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// measureSamples is how many entries of a partition are looked at, to know how many records one has.
const measureSamples = 5

var _ driver.Measurer = (*handle)(nil)

// Measure implements driver.Measurer: the broker tells the entries and the bytes of each ledger. How many
// records are in an entry only a look at it tells. A read elsewhere would take a reader each time.
func (h *handle) Measure(ctx context.Context, partition int) ([]driver.Stretch, error) {
	if err := h.usable(ctx); err != nil {
		return nil, err
	}
	return h.topic.parts[partition].measure(ctx)
}

func (p *partition) measure(ctx context.Context) ([]driver.Stretch, error) {
	m, err := p.admin().metadata(ctx, p.topic.config.Name)
	if err != nil {
		return nil, p.fail("measure", err)
	}
	b, s, err := p.boundsIn(ctx, m)
	if err != nil {
		return nil, err
	}
	ledgers := s.filled()
	var stretches []driver.Stretch
	records := 1.0 // in an entry
	for i, l := range ledgers {
		from, err1 := pack(l.ID, 0, 0)
		until, err2 := after(l.ID, l.Entries-1)
		if err := errors.Join(err1, err2); err != nil {
			return nil, p.fail("measure", err)
		}
		if until <= b.First {
			continue
		}
		if step := max(1, len(ledgers)/measureSamples); i%step == 0 {
			n, err := p.admin().batchSize(ctx, p.name, l.ID, l.Entries/2)
			switch {
			case err == nil:
				records = float64(n)
			case !errors.Is(err, fault.NotFound): // that is one which was dropped just now
				return nil, p.fail("measure", err)
			}
		}
		kept := float64(until-max(from, b.First)) / float64(until-from)
		stretches = append(stretches, driver.Stretch{
			From: max(from, b.First), Until: until, Records: kept * records * float64(l.Entries), Bytes: kept * float64(l.Size),
		})
	}
	return stretches, nil
}

// filled are the ledgers that have entries; of the one that is written to, those that it has now.
func (s *stats) filled() []ledger {
	var filled []ledger
	for i, l := range s.Ledgers {
		if i == len(s.Ledgers)-1 && l.Entries == 0 {
			l.Entries, l.Size = s.CurrentEntries, s.CurrentSize
		}
		if l.Entries > 0 {
			filled = append(filled, l)
		}
	}
	return filled
}

// batchSize is how many messages are in an entry.
func (a *admin) batchSize(ctx context.Context, partition string, ledger, entry int64) (int64, error) {
	path := a.topicPath(partition, "/ledger/"+strconv.FormatInt(ledger, 10)+"/entry/"+strconv.FormatInt(entry, 10))
	var header http.Header
	if err := a.get(ctx, path, &header); err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(header.Get("X-Pulsar-Num-Batch-Message"), 10, 64)
	if err != nil { // a message without a batch
		return 1, nil //nolint:nilerr // see above
	}
	return max(n, 1), nil
}
