package pipe

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/spell"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// Reader cuts its input into lines of bounded length, byte by byte; nothing is trimmed.
type Reader struct {
	r *bufio.Reader
	n int64 // lines read so far
}

// NewReader reads lines of r.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, 64<<10)} }

// next is the next line, in memory of its own; io.EOF after the last one.
func (l *Reader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > commitlog.MaxRecordBytes+commitlog.MaxKeyBytes+1 {
			l.n++
			return nil, fmt.Errorf("a line longer than a record can be (%s bytes): %w", spell.Thousands(commitlog.MaxRecordBytes), fault.Invalid)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			l.n++
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			l.n++
			return line, nil
		default:
			return nil, err
		}
	}
}

// Maker turns lines into messages.
type Maker struct {
	Key       []byte // of every record; nil: none
	Separator []byte // between key and value; nil: the line is the value
	JSON      bool   // a line is a record as "consume" prints it
	Headers   []ringfence.Header
}

func (m *Maker) message(line []byte) (ringfence.Message, error) {
	if m.JSON {
		msg, err := parseRecord(line)
		msg.Headers = append(msg.Headers, m.Headers...)
		return msg, err
	}
	msg := ringfence.Message{Key: m.Key, Value: line, Headers: m.Headers}
	if m.Separator != nil {
		key, value, ok := bytes.Cut(line, m.Separator)
		if !ok {
			return msg, fmt.Errorf("no separator %q: expected key%svalue: %w", m.Separator, m.Separator, fault.Invalid)
		}
		msg.Key, msg.Value = key, value
	}
	return msg, nil
}

// ParseHeaders reads name=value flags.
func ParseHeaders(flags []string) ([]ringfence.Header, error) {
	headers := make([]ringfence.Header, 0, len(flags))
	var errs []error
	for _, f := range flags {
		name, value, ok := strings.Cut(f, "=")
		if !ok || name == "" {
			errs = append(errs, fmt.Errorf("--header %s: expected name=value: %w", storeurl.Quote(f), fault.Invalid))
		}
		headers = append(headers, ringfence.Header{Name: name, Value: []byte(value)})
	}
	return headers, errors.Join(errs...)
}

// parseRecord is the message of a line of JSON, as "consume" prints it, with its time and not its place.
func parseRecord(line []byte) (ringfence.Message, error) {
	r, err := api.ParseRecord(line)
	if err != nil {
		return ringfence.Message{}, fmt.Errorf("%w: %w", err, ringfence.ErrInvalid)
	}
	return ringfence.MessageOf(r)
}
