package remote

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/remote/core"
)

// Lines are written by hand: they are what a session costs. Each is a JSON object on a line of its own; record has the
// fields of api.Record.

var kinds = [...]string{"session", "assigned", "record", "cancel", "revoke", "revoked", "lost", "beat", "goodbye"}

// appendLine writes a line of s.
func (s *Session) appendLine(b []byte, l *core.Line, now time.Duration) []byte {
	b = append(b, `{"n":`...)
	b = strconv.AppendInt(b, l.N, 10)
	b = append(b, `,"type":"`...)
	b = append(b, kinds[l.Kind]...)
	b = append(b, '"')
	switch l.Kind {
	case core.Opened:
		b = text(b, "id", s.id)
		if s.params.Member != "" {
			b = text(b, "member", s.params.Member)
		}
		cfg := s.core.Config()
		b = number(b, "window", int64(cfg.Window))
		b = number(b, "window_bytes", cfg.WindowBytes)
		b = number(b, "ttl_ms", cfg.TTL.Milliseconds())
	case core.Handed:
		b = l.Record.Data.(*record).append(b) //nolint:forcetypeassert // nothing else is offered
	case core.Assigned:
		b = unit(b, l.Unit)
		b = checkpoint(b, l.Checkpoint)
		if l.Other != "" {
			b = text(b, "from", l.Other)
		}
	case core.Revoke:
		b = unit(b, l.Unit)
		b = number(b, "until_ms", max(0, l.Until-now).Milliseconds())
	case core.Revoked:
		b = unit(b, l.Unit)
		b = checkpoint(b, l.Checkpoint)
		if l.Other != "" {
			b = text(b, "to", l.Other)
		}
	case core.Lost:
		b = unit(b, l.Unit)
		b = numbers(b, l.Records)
	case core.Cancel:
		b = numbers(b, l.Records)
	case core.Goodbye:
		if l.Until > 0 {
			b = number(b, "until_ms", max(0, l.Until-now).Milliseconds())
		}
		if ms := retryAfter(l.Why).Milliseconds(); ms > 0 {
			b = number(b, "retry_ms", ms)
		}
	case core.Beat:
	}
	if l.Why != "" {
		b = text(b, "why", l.Why)
	}
	return append(b, '}', '\n')
}

// append writes the fields of api.Record, with its token and attempt.
func (r *record) append(b []byte) []byte {
	b = text(b, "topic", r.topic)
	b = number(b, "storage", int64(r.storage))
	b = number(b, "partition", int64(r.partition))
	b = number(b, "offset", r.offset)
	b = number(b, "epoch", r.Unit.Epoch)
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], uint64(r.Unit.Epoch)) //nolint:gosec // not negative
	binary.BigEndian.PutUint64(raw[8:], r.Token)
	b = append(b, `,"token":"`...)
	b = hex.AppendEncode(b, raw[:])
	b = append(b, '"')
	if r.key == nil {
		b = append(b, `,"key":null`...)
	} else {
		b = data(b, "key", r.key)
	}
	b = data(b, "value", r.value)
	b = text(b, "timestamp", string(api.TimeOf(time.UnixMilli(r.timestamp))))
	b = append(b, `,"headers":[`...)
	for i, h := range r.headers {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = quote(b, h.Name)
		b = data(b, "value", h.Value)
		b = append(b, '}')
	}
	b = append(b, ']')
	return number(b, "attempt", int64(r.attempt))
}

func unit(b []byte, u *core.Unit) []byte {
	b = number(b, "storage", int64(u.Storage))
	b = number(b, "partition", int64(u.Partition))
	return number(b, "epoch", u.Epoch)
}

// checkpoint writes the next offset; null: nothing was stored yet.
func checkpoint(b []byte, next int64) []byte {
	if next < 0 {
		return append(b, `,"checkpoint":null`...)
	}
	return number(b, "checkpoint", next)
}

func numbers(b []byte, ns []int64) []byte {
	b = append(b, `,"records":[`...)
	for i, n := range ns {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return append(b, ']')
}

func name(b []byte, name string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

func number(b []byte, of string, n int64) []byte { return strconv.AppendInt(name(b, of), n, 10) }

func text(b []byte, of, s string) []byte { return quote(name(b, of), s) }

// data writes bytes as a text, or as base64 with a field that says so.
func data(b []byte, of string, v []byte) []byte {
	if utf8.Valid(v) {
		return quote(name(b, of), v)
	}
	b = append(name(b, of), '"')
	b = base64.StdEncoding.AppendEncode(b, v)
	b = append(b, `","`...)
	b = append(b, of...)
	return append(b, `_encoding":"base64"`...)
}

// quote writes a JSON string as encoding/json does without its escapes for HTML. s is UTF-8.
func quote[T string | []byte](b []byte, s T) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c != 0xe2 {
			continue
		}
		if c == 0xe2 && (i+2 >= len(s) || s[i+1] != 0x80 || s[i+2]|1 != 0xa9) {
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		case 0xe2: // the ends of lines of Unicode
			b = append(b, '\\', 'u', '2', '0', '2', digits[s[i+2]&0xf])
			i += 2
		default:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&0xf])
		}
		from = i + 1
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

// answers is a POST of a client.
type answers struct {
	Seen   int64   `json:"seen"`
	Done   []int64 `json:"done"`
	Failed []struct {
		N         int64  `json:"n"`
		Error     string `json:"error"`
		RetryMS   int64  `json:"retry_ms"`
		Permanent bool   `json:"permanent"`
		Outage    bool   `json:"outage"`
	} `json:"failed"`
	Released []int64 `json:"released"`
	Commit   int64   `json:"commit"`
}

// parse reads a POST.
func parse(body []byte, window int) (*core.Post, error) {
	if len(body) > limits.AnswersBytes {
		return nil, fmt.Errorf("the answers take %d bytes; expected at most %d: %w", len(body), limits.AnswersBytes, fault.Invalid)
	}
	var a *answers
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	err := dec.Decode(&a)
	if err == nil && a == nil {
		err = fmt.Errorf("found null")
	}
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = fmt.Errorf("found more behind it")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("expected one JSON object with seen, done, failed, released and commit: %w: %w", err, fault.Invalid)
	}
	if n := len(a.Done) + len(a.Failed) + len(a.Released); n > 4*window+64 {
		return nil, fmt.Errorf("%d answers; expected at most four for each of the %d places of the window: %w", n, window, fault.Invalid)
	}
	p := &core.Post{Seen: a.Seen, Done: a.Done, Released: a.Released, Commit: a.Commit}
	for _, f := range a.Failed {
		if f.RetryMS < 0 || f.RetryMS > limits.AnswerRetryMS {
			return nil, fmt.Errorf("line %d: retry_ms is %d; expected 0 to %d: %w", f.N, f.RetryMS, limits.AnswerRetryMS, fault.Invalid)
		}
		if len(f.Error) > limits.AnswerErrorBytes {
			f.Error = strings.ToValidUTF8(f.Error[:limits.AnswerErrorBytes], "")
		}
		p.Failed = append(p.Failed, core.Failure{N: f.N, Error: f.Error, Pause: time.Duration(f.RetryMS) * time.Millisecond, Permanent: f.Permanent, Outage: f.Outage})
	}
	return p, nil
}

// reply writes what was refused.
func reply(refused []core.Refusal) []byte {
	b := []byte(`{"refused":[`)
	for i, r := range refused {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"n":`...)
		b = strconv.AppendInt(b, r.N, 10)
		b = text(b, "why", string(r.Why))
		b = append(b, '}')
	}
	return append(b, ']', '}', '\n')
}
