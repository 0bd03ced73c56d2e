package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/document"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// lineReader cuts its input into lines of bounded length. A line is what stands before a newline
// (or the end), byte by byte; nothing is trimmed.
type lineReader struct {
	r *bufio.Reader
	n int64 // lines read so far
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{r: bufio.NewReaderSize(r, 64<<10)} }

// next is the next line, in memory of its own; io.EOF after the last one.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > commitlog.MaxRecordBytes+commitlog.MaxKeyBytes+1 {
			l.n++
			return nil, fmt.Errorf("a line longer than a record can be (%s bytes): %w", thousands(commitlog.MaxRecordBytes), fault.Invalid)
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

// messageMaker turns lines into messages.
type messageMaker struct {
	key       []byte // of every record; nil: none
	separator []byte // between key and value; nil: the line is the value
	json      bool   // a line is a record as "consume" prints it
	headers   []ringfence.Header
}

func (m *messageMaker) message(line []byte) (ringfence.Message, error) {
	if m.json {
		msg, err := document.ParseRecord(line)
		msg.Headers = append(msg.Headers, m.headers...)
		return msg, err
	}
	msg := ringfence.Message{Key: m.key, Value: line, Headers: m.headers}
	if m.separator != nil {
		key, value, ok := bytes.Cut(line, m.separator)
		if !ok {
			return msg, fmt.Errorf("no separator %q: expected key%svalue: %w", m.separator, m.separator, fault.Invalid)
		}
		msg.Key, msg.Value = key, value
	}
	return msg, nil
}

// parseHeaders reads name=value flags.
func parseHeaders(flags []string) ([]ringfence.Header, error) {
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
