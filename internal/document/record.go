package document

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
)

// base64Encoding marks a text that is the base64 form of bytes that are no UTF-8.
const base64Encoding = "base64"

// Record is a record as a line of JSON. Key, value and header values that are no UTF-8 are in
// base64, which the encoding field next to them says.
type Record struct {
	Topic         string   `json:"topic"`
	Storage       int      `json:"storage"`
	Partition     int      `json:"partition"`
	Offset        int64    `json:"offset"`
	Epoch         int64    `json:"epoch"`
	Key           *string  `json:"key"` // null: the record has no key
	KeyEncoding   string   `json:"key_encoding,omitempty"`
	Value         string   `json:"value"`
	ValueEncoding string   `json:"value_encoding,omitempty"`
	Timestamp     string   `json:"timestamp"` // RFC 3339, UTC, milliseconds
	Headers       []Header `json:"headers"`
	Attempt       int      `json:"attempt,omitempty"` // from the second delivery on
}

// Header is a header of a record.
type Header struct {
	Name          string `json:"name"`
	Value         string `json:"value"`
	ValueEncoding string `json:"value_encoding,omitempty"`
}

// RecordLine is m as a line of JSON.
func RecordLine(m *ringfence.Message) ([]byte, error) {
	r := Record{
		Topic: m.Topic, Storage: m.Storage, Partition: m.Partition, Offset: m.Offset, Epoch: m.Epoch,
		Timestamp: Time(m.Timestamp.UnixMilli()),
		Headers:   make([]Header, len(m.Headers)),
	}
	if m.Attempt > 1 {
		r.Attempt = m.Attempt
	}
	if m.Key != nil {
		var key string
		key, r.KeyEncoding = Text(m.Key)
		r.Key = &key
	}
	r.Value, r.ValueEncoding = Text(m.Value)
	for i, h := range m.Headers {
		r.Headers[i].Name = h.Name
		r.Headers[i].Value, r.Headers[i].ValueEncoding = Text(h.Value)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(&r)
	return out.Bytes(), err
}

// Text is b as it stands in a document, and its encoding: none, or base64 of what is no UTF-8.
func Text(b []byte) (text, encoding string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return base64.StdEncoding.EncodeToString(b), base64Encoding
}

func decodeText(text, encoding string) ([]byte, error) {
	switch encoding {
	case "":
		return []byte(text), nil
	case base64Encoding:
		return base64.StdEncoding.DecodeString(text)
	}
	return nil, fmt.Errorf("encoding %q: expected %q or none", encoding, base64Encoding)
}

// ParseRecord reads a line of JSON as RecordLine writes it. Place and epoch are not those of
// the message that is produced from it; its time is.
func ParseRecord(line []byte) (ringfence.Message, error) {
	var p *Record // nil after the word null, which is no record
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil || p == nil {
		return ringfence.Message{}, fmt.Errorf("expected a record as \"consume\" prints it: %s: %w", jsonFault(err), fault.Invalid)
	}
	r := *p
	if _, err := dec.Token(); err != io.EOF {
		return ringfence.Message{}, fmt.Errorf("expected one record in the line, found more: %w", fault.Invalid)
	}
	if err := checkText(line); err != nil {
		return ringfence.Message{}, fmt.Errorf("%w: %w", err, fault.Invalid)
	}
	m, err := r.message()
	if err != nil {
		return m, fmt.Errorf("%w: %w", err, fault.Invalid)
	}
	return m, nil
}

// checkText refuses what stands for no text: bytes that are no UTF-8, and one half of a surrogate pair.
// The JSON library puts U+FFFD there, and the record would be another one without a word.
func checkText(line []byte) error {
	if !utf8.Valid(line) {
		return errors.New("the line is no UTF-8; expected bytes as base64, which key_encoding and value_encoding say")
	}
	for i := 0; i < len(line)-1; i++ {
		if line[i] != '\\' {
			continue
		}
		if i++; line[i] != 'u' {
			continue
		}
		first, second := escaped(line[i-1:]), escaped(line[min(i+5, len(line)):])
		if !utf16.IsSurrogate(first) {
			continue
		}
		if utf16.DecodeRune(first, second) == utf8.RuneError {
			return fmt.Errorf("%.6s is half of a character, without the other half; expected bytes as base64, which key_encoding and value_encoding say", line[i-1:])
		}
		i += 10 // behind both
	}
	return nil
}

// escaped is what the escape sequence \uXXXX stands for that text begins with; -1 when there is none.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// jsonFault is what is wrong with a line, without the names of our types.
func jsonFault(err error) string {
	var bad *json.UnmarshalTypeError
	switch {
	case err == nil:
		return "found null"
	case errors.As(err, &bad) && bad.Field != "":
		return fmt.Sprintf("%q is a JSON %s, which it can't be", bad.Field, bad.Value)
	case errors.As(err, &bad):
		return "found a JSON " + bad.Value + ", no object"
	case errors.Is(err, io.EOF):
		return "the line is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the line ends within it"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

func (r *Record) message() (m ringfence.Message, err error) {
	if r.Key != nil {
		if m.Key, err = decodeText(*r.Key, r.KeyEncoding); err != nil {
			return m, fmt.Errorf("key: %w", err)
		}
	}
	if m.Value, err = decodeText(r.Value, r.ValueEncoding); err != nil {
		return m, fmt.Errorf("value: %w", err)
	}
	for _, h := range r.Headers {
		value, err := decodeText(h.Value, h.ValueEncoding)
		if err != nil {
			return m, fmt.Errorf("header %q: %w", h.Name, err)
		}
		m.Headers = append(m.Headers, ringfence.Header{Name: h.Name, Value: value})
	}
	if r.Timestamp != "" {
		if m.Timestamp, err = time.Parse(time.RFC3339, r.Timestamp); err != nil {
			return m, fmt.Errorf("timestamp: %w", err)
		}
	}
	return m, nil
}
