package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

const (
	linesType  = "application/x-ndjson"
	eventsType = "text/event-stream"
)

func records(t *table) {
	t.add(&api.V1.Produce.Route, produce)
	onStream(t, &api.V1.ReadRecords, read)
}

// produce appends the records of a request. The answer says of each where it is; when one is not stored, the answer is the
// problem of the first, and has the places of all.
func produce(w http.ResponseWriter, r *request) error {
	in, err := api.V1.Produce.Bind(r.Request, r.names)
	if err != nil {
		return err
	}
	opts := &ringfence.ProduceOptions{Partition: in.Partition}
	if in.Producer != "" {
		if opts.Producer, opts.Home, err = parseProducer(in.Producer); err != nil {
			return invalid("Ringfence-Producer", err)
		}
	}
	messages, err := messagesOf(r.Request)
	if err != nil {
		return err
	}
	places := make([]api.Place, len(messages))
	errs := make([]error, len(messages))
	var wait sync.WaitGroup
	wait.Add(len(messages))
	for i := range messages {
		o := *opts
		o.Producer.Sequence += int64(i)
		r.rf.ProduceAsync(r.Context(), in.Topic, messages[i], &o, func(at ringfence.Position, err error) {
			places[i], errs[i] = api.Place{Storage: at.Storage, Partition: at.Partition, Offset: at.Offset}, err
			wait.Done()
		})
	}
	wait.Wait()
	var first *api.Problem
	for i, err := range errs {
		if err != nil {
			p := api.ProblemOf(err)
			places[i] = api.Place{Storage: -1, Partition: -1, Offset: -1, Type: p.Type, Detail: p.Detail, Stored: p.Stored}
			if first == nil {
				again := *p
				first = &again
			}
		}
	}
	if first != nil {
		first.Records = places
		if len(places) == 1 {
			first.Records = nil
		}
		return first
	}
	return answer(w, http.StatusOK, api.Produced{Records: places})
}

// parseProducer reads ID/SEQUENCE/HOME.
func parseProducer(text string) (p commitlog.Producer, home int, err error) {
	parts := strings.Split(text, "/")
	if len(parts) == 3 {
		var errs [3]error
		p.ID, errs[0] = strconv.ParseUint(parts[0], 10, 64)
		p.Sequence, errs[1] = strconv.ParseInt(parts[1], 10, 64)
		home, errs[2] = strconv.Atoi(parts[2])
		err = errors.Join(errs[:]...)
	}
	if len(parts) != 3 || err != nil || p.ID == 0 {
		return p, 0, fmt.Errorf("found %.60q; expected ID/SEQUENCE/HOME, three numbers", text)
	}
	return p, home, nil
}

// messagesOf reads the body of a request to produce: a record, or one a line.
func messagesOf(r *http.Request) (all []ringfence.Message, err error) {
	in := bufio.NewReaderSize(r.Body, 64<<10)
	lines := strings.HasPrefix(r.Header.Get("Content-Type"), linesType)
	if !lines {
		body, err := io.ReadAll(in)
		if err != nil {
			return nil, bodyError(err)
		}
		m, err := messageOf(body)
		if err != nil {
			return nil, invalid("body", err)
		}
		return []ringfence.Message{m}, nil
	}
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		last := err == io.EOF
		if err != nil && !last {
			return nil, bodyError(err)
		}
		if len(strings.TrimSpace(string(line))) > 0 {
			m, bad := messageOf(line)
			if bad != nil {
				return nil, invalid(fmt.Sprintf("line %d", n), bad)
			}
			if all = append(all, m); len(all) > limits.RequestRecords {
				return nil, invalid("body", fmt.Errorf("expected at most %d records in a request", limits.RequestRecords))
			}
		}
		if last {
			return all, nil
		}
	}
}

func messageOf(text []byte) (m ringfence.Message, err error) {
	rec, err := api.ParseRecord(text)
	if err != nil {
		return m, err
	}
	return ringfence.MessageOf(rec)
}

// bodyError is that of a body that can't be read.
func bodyError(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		p := *api.ProblemOf(fmt.Errorf("the body is larger than %d bytes: send less in a request: %w", large.Limit, fault.Invalid))
		p.Status = http.StatusRequestEntityTooLarge
		return &p
	}
	return fmt.Errorf("the body ends early: %w: %w", err, fault.Invalid)
}

// read writes the records of a topic as lines, or as events.
func read(w http.ResponseWriter, r *request, in *api.ReadRecords) error {
	from := ringfence.SeekEarliest
	if in.From != "" {
		var err error
		if from, err = ringfence.ParseSeek(in.From); err != nil {
			return err
		}
	} else if in.Follow {
		from = ringfence.SeekLatest
	}
	opts := &ringfence.TailOptions{From: from, Partitions: in.Partitions, Storage: in.Storage, ToEnd: !in.Follow}
	if in.Key != nil {
		opts.Key = []byte(*in.Key)
	}
	if _, err := r.rf.Admin().DescribeTopic(r.Context(), in.Topic); err != nil {
		return err
	}
	s := newStream(r.Context(), w, strings.Contains(r.Header.Get("Accept"), eventsType))
	defer s.close()
	left := in.Limit
	err := r.rf.Tail(s.ctx, in.Topic, func(_ context.Context, m *ringfence.Message) error {
		line, err := m.Record().Line()
		if err != nil {
			return err
		}
		if err := s.write(line); err != nil {
			return err
		}
		if left--; left == 0 {
			return errEnough
		}
		return nil
	}, opts)
	switch {
	case err == nil, errors.Is(err, errEnough), s.ctx.Err() != nil:
	case s.begun():
		s.fail(err)
	default:
		return err
	}
	return nil
}

var errEnough = errors.New("enough")

// stream is an answer that goes on: lines of JSON, or events that have such a line each. What is quiet has a beat.
type stream struct {
	ctx    context.Context //nolint:containedctx // of the answer: it ends when nothing can be written any more
	stop   context.CancelFunc
	w      http.ResponseWriter
	out    *http.ResponseController
	events bool
	beats  sync.WaitGroup

	mu    sync.Mutex
	start bool      // the header is written
	last  time.Time // when something was written
	dirty bool      // something is not flushed
}

const (
	beatEvery  = 10 * time.Second
	flushAfter = 5 * time.Millisecond
	writeTime  = 30 * time.Second // a reader that takes nothing for so long is cut off
)

func newStream(ctx context.Context, w http.ResponseWriter, events bool) *stream {
	s := &stream{w: w, out: http.NewResponseController(w), events: events, last: time.Now()}
	s.ctx, s.stop = context.WithCancel(ctx)
	s.beats.Go(s.beat) // joined by close
	return s
}

func (s *stream) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start
}

func (s *stream) write(line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(line, false)
}

// put writes a line, under the lock.
func (s *stream) put(line []byte, now bool) error {
	if !s.start {
		s.start = true
		h := s.w.Header()
		h.Set("Content-Type", linesType)
		if s.events {
			h.Set("Content-Type", eventsType)
		}
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no")
	}
	_ = s.out.SetWriteDeadline(time.Now().Add(writeTime)) // a recorder of tests has none
	var err error
	switch {
	case s.events && len(line) > 1:
		_, err = fmt.Fprintf(s.w, "data: %s\n", line)
	case s.events:
		_, err = io.WriteString(s.w, ":\n\n")
	default:
		_, err = s.w.Write(line)
	}
	s.last, s.dirty = time.Now(), true
	if err == nil && now {
		s.dirty = false
		err = s.out.Flush()
	}
	if err != nil {
		s.stop()
	}
	return err
}

// beat flushes what was written, and writes an empty line into what is quiet, so that no proxy takes it for dead.
func (s *stream) beat() {
	tick := time.NewTicker(flushAfter)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		switch {
		case s.dirty:
			s.dirty = false
			if s.out.Flush() != nil {
				s.stop()
			}
		case time.Since(s.last) > beatEvery, !s.start:
			_ = s.put([]byte("\n"), true)
		}
		s.mu.Unlock()
	}
}

// fail ends a stream that has begun with a line of the problem.
func (s *stream) fail(err error) {
	p := api.ProblemOf(err)
	line := fmt.Sprintf("{\"problem\":%q,\"type\":%q}\n", p.Detail, p.Type)
	_ = s.write([]byte(line)) // the reader may be gone
}

func (s *stream) close() {
	s.stop()
	s.beats.Wait()
	_ = s.out.Flush() // the reader may be gone
}
