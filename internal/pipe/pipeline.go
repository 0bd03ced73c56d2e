// Package pipe is what stands between lines and records: a [Pipeline] stores the lines of an input, a
// [Sink] writes the lines of many goroutines to one output, and a [Tally] ends a consumer after so many
// records, or when nothing is left to do.
package pipe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/spell"
)

// Pipeline produces lines with many of them under way at once.
//
// A scanner goroutine reads; run owns all the rest. It queues lines while the ring has a free slot, takes the answers
// as they come, and settles (counts, prints) them in the order of the lines.
type Pipeline struct {
	rf   *ringfence.Client
	cfg  Config
	opts ringfence.ProduceOptions

	ring    []answer    // of line n at (n-1) mod len; settled < n <= queued
	answers chan answer // as long as the ring: an answer never waits
	queued  int64       // lines 1 to queued were handed to the log
	settled int64       // lines 1 to settled were counted
	open    int64       // queued lines without an answer

	out    *bufio.Writer // gets the place of each record; nil: places are not printed
	places *json.Encoder // into out
	sum    Summary
}

// answer is what became of a line.
type answer struct {
	line int64 // from 1
	here bool
	at   ringfence.Position
	err  error
}

// Summary is what became of all lines.
type Summary struct {
	Acked   int64 // stored, for certain
	unknown int64 // stored or not
	failed  int64 // the first line that was not stored, or 0
	err     error // why
	later   int64 // lines after it that were stored
	output  error // why the places could not be written
	drained bool  // Config.Drain is why
}

// Config says what a pipeline does.
type Config struct {
	Topic     string
	Partition int           // of every record; -1: by the key
	InFlight  int           // how many lines may wait for their answer
	Maker     *Maker        // makes a record of a line
	Places    io.Writer     // gets the place of each record; may be nil
	Drain     error         // a context that ends because of it ends only the reading
	LastWords time.Duration // how long answers are waited for when it ends because of anything else
}

// New returns a pipeline into a topic.
func New(rf *ringfence.Client, cfg Config) *Pipeline {
	p := &Pipeline{rf: rf, cfg: cfg, ring: make([]answer, cfg.InFlight), answers: make(chan answer, cfg.InFlight)}
	if cfg.Partition != -1 {
		p.opts.Partition = &p.cfg.Partition
	}
	if cfg.Places != nil {
		p.out = bufio.NewWriterSize(cfg.Places, 64<<10)
		p.places = json.NewEncoder(p.out)
	}
	return p
}

// Run produces the lines of in until they end, one fails, or ctx ends, and returns when every
// line that was queued has its answer. Config.Drain ends only the reading: what is under way then is
// finished. show is called at each tick.
func (p *Pipeline) Run(ctx context.Context, in *Reader, tick <-chan time.Time, show func(acked int64)) Summary {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	batches := make(chan batch, 4)
	// It ends with reading, or with its read of a terminal or a pipe, which can't be called off.
	go scan(reading, in, batches)

	storing, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	var lines [][]byte // read, not queued yet
	var noMore error   // why no more will be read
	interrupted := ctx.Done()
	var tooLate <-chan time.Time
	for {
		for len(lines) > 0 && p.free() && p.sum.err == nil {
			p.queue(storing, lines[0])
			lines = lines[1:]
			select {
			case a := <-p.answers: // soonest of all for a line that is refused at once
				p.take(a)
			default:
			}
		}
		if len(lines) == 0 && noMore != nil && !errors.Is(noMore, io.EOF) {
			p.refuse(p.queued+1, noMore)
		}
		over := noMore != nil && len(lines) == 0 || p.sum.err != nil || p.sum.output != nil
		if over && p.open == 0 {
			break
		}
		from := batches
		if over || len(lines) > 0 {
			from = nil
		}
		select {
		case b := <-from:
			lines, noMore = b.lines, b.err
		case a := <-p.answers:
			p.take(a)
		case <-interrupted:
			interrupted = nil
			why := context.Cause(ctx)
			if !over {
				p.refuse(p.queued+1, why)
			}
			if !errors.Is(why, p.cfg.Drain) {
				giveUp(why)
				tooLate = time.After(p.cfg.LastWords)
			}
		case <-tooLate:
			p.abandon(context.Cause(ctx))
		case <-tick:
			show(p.sum.Acked)
		}
	}
	p.flush()
	p.sum.drained = p.cfg.Drain != nil && errors.Is(p.sum.err, p.cfg.Drain)
	return p.sum
}

// abandon waits no more for answers, for which the channel still has room: the lines are of unknown fate.
func (p *Pipeline) abandon(why error) {
	for n := p.settled + 1; n <= p.queued; n++ {
		if n > p.settled && !p.ring[(n-1)%int64(len(p.ring))].here { // taking one may settle others
			p.take(answer{line: n, here: true, err: fmt.Errorf("no answer: %w: %w", ringfence.ErrUnknown, why)})
		}
	}
}

func (p *Pipeline) free() bool { return p.queued-p.settled < int64(len(p.ring)) }

// queue hands one line to the log.
func (p *Pipeline) queue(ctx context.Context, line []byte) {
	m, err := p.cfg.Maker.message(line)
	if err != nil {
		p.refuse(p.queued+1, err)
		return
	}
	p.queued++
	p.open++
	n := p.queued
	p.rf.ProduceAsync(ctx, p.cfg.Topic, m, &p.opts, func(at ringfence.Position, err error) {
		p.answers <- answer{line: n, here: true, at: at, err: err}
	})
}

// refuse notes that a line was not stored, or not even queued. The first one counts.
func (p *Pipeline) refuse(line int64, err error) {
	if p.sum.failed == 0 || line < p.sum.failed {
		p.sum.failed, p.sum.err = line, err
	}
}

// take notes an answer, and all that are there, and settles the lines from the oldest on.
func (p *Pipeline) take(a answer) {
	for {
		p.ring[(a.line-1)%int64(len(p.ring))] = a
		p.open--
		if a.err != nil {
			p.refuse(a.line, a.err)
		}
		select {
		case a = <-p.answers:
			continue
		default:
		}
		break
	}
	for p.settled < p.queued {
		slot := &p.ring[p.settled%int64(len(p.ring))]
		if !slot.here {
			break
		}
		p.settle(slot)
		slot.here = false
		p.settled++
	}
	if p.open == 0 || p.out != nil && p.out.Available() < 1<<10 {
		p.flush()
	}
}

func (p *Pipeline) settle(a *answer) {
	switch {
	case a.err == nil:
		p.sum.Acked++
		if p.sum.failed > 0 && a.line > p.sum.failed {
			p.sum.later++
		}
		if p.sum.failed == 0 || a.line < p.sum.failed { // later, the line of a place could not be told
			if p.out != nil && p.sum.output == nil {
				p.sum.output = p.places.Encode(a.at)
			}
		}
	case errors.Is(a.err, ringfence.ErrUnknown):
		p.sum.unknown++
	}
}

func (p *Pipeline) flush() {
	if p.out != nil && p.sum.output == nil {
		p.sum.output = p.out.Flush()
	}
}

// Fault is the error that tells what became of the lines; nil when all were stored.
func (s *Summary) Fault() error {
	if s.err == nil {
		if s.output != nil {
			return fmt.Errorf("%s stored: %w: %w", spell.Plural(s.Acked, "line"), ErrPlacesLost, s.output)
		}
		return nil
	}
	if s.drained && s.output == nil && s.unknown == 0 {
		return fmt.Errorf("%s stored, and the input had not ended; line %d is the first that was not: %w", spell.Plural(s.Acked, "line"), s.failed, s.err)
	}
	what := fmt.Sprintf("line %d was not stored", s.failed)
	if errors.Is(s.err, ringfence.ErrUnknown) {
		what = fmt.Sprintf("line %d may or may not be stored", s.failed)
	}
	story := spell.Plural(s.Acked-s.later, "line") + " before it stored"
	if s.later > 0 {
		story += fmt.Sprintf(", and %d after it", s.later)
	}
	if s.unknown > 0 {
		story += fmt.Sprintf(", %d of unknown fate", s.unknown)
	}
	return fmt.Errorf("%s (%s): %w", what, story, s.err)
}

// ErrPlacesLost ends a produce whose caller would not learn where its records are.
var ErrPlacesLost = errors.New("their places can't be printed")

// batch is some lines that were read together, and why there are no more.
type batch struct {
	lines [][]byte
	err   error
}

// scan reads lines and sends them in batches: as many as can be had without waiting for input.
func scan(ctx context.Context, in *Reader, to chan<- batch) {
	for {
		var b batch
		for len(b.lines) < 512 {
			line, err := in.next()
			if err != nil {
				b.err = err
				break
			}
			b.lines = append(b.lines, line)
			if in.r.Buffered() == 0 {
				break
			}
		}
		select {
		case to <- b:
		case <-ctx.Done():
			return
		}
		if b.err != nil {
			return
		}
	}
}
