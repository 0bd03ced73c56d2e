package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ringfence/ringfence"
)

// pipeline produces lines with many of them under way at once.
//
// A scanner goroutine reads; run owns all the rest. It queues lines in their order while the ring
// has a free slot, takes the answers in whatever order they come, and settles (counts, prints)
// them in the order of the lines.
type pipeline struct {
	rf    *ringfence.Client
	topic string
	opts  ringfence.ProduceOptions
	maker *messageMaker

	ring    []answer    // of line n at (n-1) mod len; settled < n <= queued
	answers chan answer // as long as the ring: an answer never waits
	queued  int64       // lines 1 to queued were handed to the log
	settled int64       // lines 1 to settled were counted
	open    int64       // queued lines without an answer

	out *bufio.Writer // gets the place of each record; nil: nobody wants it
	sum summary
}

// answer is what became of a line.
type answer struct {
	line int64 // from 1
	here bool
	at   ringfence.Position
	err  error
}

// summary is what became of all lines.
type summary struct {
	acked   int64 // stored, for certain
	unknown int64 // nobody can say
	failed  int64 // the first line that was not stored, or 0
	err     error // why
	later   int64 // lines after it that were stored
	output  error // stdout does not take the places
}

func newPipeline(rf *ringfence.Client, topic string, maker *messageMaker, f produceFlags, printed io.Writer) *pipeline {
	p := &pipeline{rf: rf, topic: topic, maker: maker, ring: make([]answer, f.inFlight), answers: make(chan answer, f.inFlight)}
	if f.partition != -1 {
		p.opts.Partition = &f.partition
	}
	if printed != nil {
		p.out = bufio.NewWriterSize(printed, 64<<10)
	}
	return p
}

// run produces the lines of in until they end, one fails, or ctx ends, and returns when every
// line that was queued has its answer. A signal ends only the reading: what is under way then is
// finished. show is called at each tick.
func (p *pipeline) run(ctx context.Context, in *lineReader, tick <-chan time.Time, show func(acked int64)) summary {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	batches := make(chan batch, 4)
	// It ends with reading, except while it sits in a read of a terminal or a pipe: that can't
	// be called off, and nothing it reads afterwards is used.
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
			if !errors.Is(why, errSignalled) {
				giveUp(why)
				tooLate = time.After(lastWords)
			}
		case <-tooLate:
			p.abandon(context.Cause(ctx))
		case <-tick:
			show(p.sum.acked)
		}
	}
	p.flush()
	return p.sum
}

// abandon waits no more for answers: nobody knows what becomes of their lines. The channel has room
// for those that come all the same.
func (p *pipeline) abandon(why error) {
	for n := p.settled + 1; n <= p.queued; n++ {
		if n > p.settled && !p.ring[(n-1)%int64(len(p.ring))].here { // taking one may settle others
			p.take(answer{line: n, here: true, err: fmt.Errorf("no answer: %w: %w", ringfence.ErrUnknown, why)})
		}
	}
}

func (p *pipeline) free() bool { return p.queued-p.settled < int64(len(p.ring)) }

// queue hands one line to the log.
func (p *pipeline) queue(ctx context.Context, line []byte) {
	m, err := p.maker.message(line)
	if err != nil {
		p.refuse(p.queued+1, err)
		return
	}
	p.queued++
	p.open++
	n := p.queued
	p.rf.ProduceAsync(ctx, p.topic, m, &p.opts, func(at ringfence.Position, err error) {
		p.answers <- answer{line: n, here: true, at: at, err: err}
	})
}

// refuse notes that a line was not stored, or not even queued. The first one counts.
func (p *pipeline) refuse(line int64, err error) {
	if p.sum.failed == 0 || line < p.sum.failed {
		p.sum.failed, p.sum.err = line, err
	}
}

// take notes an answer, and all that are there, and settles the lines from the oldest on.
func (p *pipeline) take(a answer) {
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

func (p *pipeline) settle(a *answer) {
	switch {
	case a.err == nil:
		p.sum.acked++
		if p.sum.failed > 0 && a.line > p.sum.failed {
			p.sum.later++
		}
		if p.sum.failed == 0 || a.line < p.sum.failed { // later, nobody could tell which line a place belongs to
			p.print(a.at)
		}
	case errors.Is(a.err, ringfence.ErrUnknown):
		p.sum.unknown++
	}
}

func (p *pipeline) print(at ringfence.Position) {
	if p.out == nil || p.sum.output != nil {
		return
	}
	b, err := json.Marshal(at)
	if err == nil {
		_, err = p.out.Write(append(b, '\n'))
	}
	p.sum.output = err
}

func (p *pipeline) flush() {
	if p.out != nil && p.sum.output == nil {
		p.sum.output = p.out.Flush()
	}
}

// fault is the error that tells what became of the lines; nil when all were stored.
func (s *summary) fault() error {
	if s.err == nil {
		if s.output != nil {
			return fmt.Errorf("%s stored: %w: %w", plural(s.acked, "line"), errPlacesLost, s.output)
		}
		return nil
	}
	if errors.Is(s.err, errSignalled) && s.output == nil && s.unknown == 0 {
		return fmt.Errorf("%s stored, and the input had not ended; line %d is the first that was not: %w", plural(s.acked, "line"), s.failed, s.err)
	}
	what := fmt.Sprintf("line %d was not stored", s.failed)
	if errors.Is(s.err, ringfence.ErrUnknown) {
		what = fmt.Sprintf("line %d may or may not be stored", s.failed)
	}
	story := plural(s.acked-s.later, "line") + " before it stored"
	if s.later > 0 {
		story += fmt.Sprintf(", and %d after it", s.later)
	}
	if s.unknown > 0 {
		story += fmt.Sprintf(", %d of unknown fate", s.unknown)
	}
	return fmt.Errorf("%s (%s): %w", what, story, s.err)
}

// errPlacesLost ends a produce whose caller would not learn where its records are.
var errPlacesLost = errors.New("their places can't be printed")

// batch is some lines that were read together, and why there are no more.
type batch struct {
	lines [][]byte
	err   error
}

// scan reads lines and sends them in batches: as many as can be had without waiting for input.
func scan(ctx context.Context, in *lineReader, to chan<- batch) {
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
