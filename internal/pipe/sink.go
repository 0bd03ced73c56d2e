package pipe

import (
	"context"
	"io"
)

// Sink writes lines of many goroutines to one stream; whatever waits goes out in one write.
type Sink struct {
	lines chan sinkLine
	quit  chan struct{}
	done  chan struct{}
}

type sinkLine struct {
	text    []byte
	written chan<- error // has room for the answer
}

// sinkBatchBytes bounds one write of a Sink, save for a single long line.
const sinkBatchBytes = 64 << 10

// NewSink starts the goroutine that owns w, until Close. The first write that fails is the last; broken gets its error.
func NewSink(w io.Writer, broken func(error)) *Sink {
	s := &Sink{lines: make(chan sinkLine), quit: make(chan struct{}), done: make(chan struct{})}
	go func() { // joined by Close
		defer close(s.done)
		s.run(w, broken)
	}()
	return s
}

func (s *Sink) run(w io.Writer, broken func(error)) {
	var buf []byte
	var waiting []chan<- error
	var failed error
	for {
		select {
		case l := <-s.lines:
			buf, waiting = append(buf[:0], l.text...), append(waiting[:0], l.written)
		case <-s.quit:
			return
		}
		for more := true; more && len(buf) < sinkBatchBytes; {
			select {
			case l := <-s.lines:
				buf, waiting = append(buf, l.text...), append(waiting, l.written)
			default:
				more = false
			}
		}
		if failed == nil {
			if _, failed = w.Write(buf); failed != nil {
				broken(failed)
			}
		}
		for _, c := range waiting {
			c <- failed
		}
	}
}

// Write waits until a line is written. When ctx ends first, that is not certain.
func (s *Sink) Write(ctx context.Context, line []byte) error {
	written := make(chan error, 1)
	select {
	case s.lines <- sinkLine{line, written}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends the goroutine. No write may be under way.
func (s *Sink) Close() {
	close(s.quit)
	<-s.done
}
