package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Record is a record of a topic.
type Record struct {
	Topic         string   `json:"topic"`
	Storage       int      `json:"storage"`
	Partition     int      `json:"partition"`
	Offset        int64    `json:"offset"`
	Epoch         int64    `json:"epoch"`
	Token         string   `json:"token,omitempty"` // see ringfence.Message.Token
	Key           *string  `json:"key"`             // null: the record has no key
	KeyEncoding   string   `json:"key_encoding,omitempty"`
	Value         string   `json:"value"`
	ValueEncoding string   `json:"value_encoding,omitempty"`
	Timestamp     Time     `json:"timestamp"`
	Headers       []Header `json:"headers"`
	Attempt       int      `json:"attempt,omitempty"` // from the second delivery on
}

// Header is a header of a record.
type Header struct {
	Name          string `json:"name"`
	Value         string `json:"value"`
	ValueEncoding string `json:"value_encoding,omitempty"`
}

// Line writes the record as one line of JSON, with its newline.
func (r *Record) Line() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(r)
	return out.Bytes(), err
}

// ParseRecord reads a line of JSON as Line writes it.
func ParseRecord(line []byte) (*Record, error) {
	var r *Record // nil after the word null, which is no record
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil || r == nil {
		return nil, fmt.Errorf("expected a record as \"consume\" prints it: %s", jsonFault(err))
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("expected one record in the line, found more")
	}
	if err := checkText(line); err != nil {
		return nil, err
	}
	return r, nil
}

// checkText refuses bytes that are no UTF-8, and one half of a surrogate pair. The JSON library silently puts U+FFFD
// there, which would make it another record.
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

// jsonFault says what is wrong with a line, without the names of Go types.
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
