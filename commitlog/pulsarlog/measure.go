package pulsarlog

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

const (
	// measureSamples is how many entries of a partition are looked at, to know how many records one has.
	measureSamples = 8
	// entryOverhead is about what an entry has besides its messages.
	entryOverhead = 100
)

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
	recordsIn, err := p.sample(ctx, ledgers)
	if err != nil {
		return nil, p.fail("measure", err)
	}
	var stretches []driver.Stretch
	for _, l := range ledgers {
		from, err1 := pack(l.ID, 0, 0)
		until, err2 := after(l.ID, l.Entries-1)
		if err := errors.Join(err1, err2); err != nil {
			return nil, p.fail("measure", err)
		}
		if until <= b.First {
			continue
		}
		kept := float64(until-max(from, b.First)) / float64(until-from)
		stretches = append(stretches, driver.Stretch{From: max(from, b.First), Until: until, Records: kept * recordsIn(l), Bytes: kept * float64(l.Size)})
	}
	return stretches, nil
}

// sample looks at entries all over some ledgers, and returns how many records a ledger has: by its entries,
// where all have the same number, and otherwise by its bytes, as records are more alike than entries are.
func (p *partition) sample(ctx context.Context, ledgers []ledger) (func(ledger) float64, error) {
	all := int64(0)
	for _, l := range ledgers {
		all += l.Entries
	}
	records, bytes, least, most := 0.0, 0.0, math.Inf(1), 1.0
	last := int64(-1)
	for i := range int64(measureSamples) {
		at := all * (2*i + 1) / (2 * measureSamples)
		if at == last || at >= all {
			continue
		}
		last = at
		for _, l := range ledgers {
			if at >= l.Entries {
				at -= l.Entries
				continue
			}
			n, size, err := p.admin().entry(ctx, p.name, l.ID, at)
			switch {
			case err == nil:
				records, bytes, least, most = records+n, bytes+size+entryOverhead, min(least, n), max(most, n)
			case !errors.Is(err, fault.NotFound): // that is one which was dropped just now
				return nil, err
			}
			break
		}
	}
	if least >= most || bytes == 0 {
		return func(l ledger) float64 { return most * float64(l.Entries) }, nil
	}
	return func(l ledger) float64 { return records / bytes * float64(l.Size) }, nil
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

// entry is how many messages are in an entry, and their bytes as they are stored.
func (a *admin) entry(ctx context.Context, partition string, ledger, entry int64) (messages, bytes float64, err error) {
	path := a.topicPath(partition, "/ledger/"+strconv.FormatInt(ledger, 10)+"/entry/"+strconv.FormatInt(entry, 10))
	var header http.Header
	if err := a.get(ctx, path, &header); err != nil {
		return 0, 0, err
	}
	number := func(name string) float64 { // 0: the broker does not say, as of a message without a batch
		n, _ := strconv.ParseFloat(header.Get(name), 64)
		return n
	}
	return max(number("X-Pulsar-Num-Batch-Message"), 1), number("X-Pulsar-Batch-Size"), nil
}
