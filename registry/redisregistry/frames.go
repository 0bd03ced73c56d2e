package redisregistry

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

// frames follows one direction of a connection and finds where each message of RESP3 ends, in
// bounded memory, before the client library sees a byte of it: the library makes room for as much
// as a message declares. Redis says the same thing in one way only, and any other is refused, so
// that what is read here can't be read differently there.
type frames struct {
	deliver func(*message) error
	free    bool // what is declared is believed: it is our own

	line []byte // of a header whose end is still to come
	body int64  // bytes of a string that are still to come
	tail int    // bytes of the CR LF behind it
	open []int  // how many parts are still to come of each aggregate that is open
	took int64  // bytes of this message
	sum  int64  // parts of this message
	msg  message
}

// message is what is kept of one.
type message struct {
	kind  byte
	parts int // of an aggregate; -1: it is null
	n     int
	texts [4][]byte // how its first n strings or numbers begin
	keep  bool      // the one that began last is among them
}

const textMost = 512

func (m *message) text(i int) string {
	if i >= m.n {
		return ""
	}
	return string(m.texts[i])
}

// begin begins a string or number.
func (m *message) begin() {
	if m.keep = m.n < len(m.texts); m.keep {
		m.texts[m.n] = m.texts[m.n][:0]
		m.n++
	}
}

// append adds to what began last, if it is kept.
func (m *message) append(b []byte) {
	if m.keep {
		t := &m.texts[m.n-1]
		*t = append(*t, b[:min(len(b), textMost-len(*t))]...)
	}
}

func refused(format string, args ...any) error {
	return fmt.Errorf("the server does not speak as Redis does: "+format+": %w", append(args, fault.Corrupt)...)
}

// feed takes the bytes that come next.
func (f *frames) feed(b []byte) error {
	for len(b) > 0 {
		was := len(b)
		var err error
		switch {
		case f.body > 0:
			n := int(min(f.body, int64(len(b))))
			f.msg.append(b[:n])
			f.body -= int64(n)
			b = b[n:]
		case f.tail > 0:
			if b[0] != "\n\r"[f.tail-1] {
				return refused("a string that is longer than it says")
			}
			f.tail--
			b = b[1:]
			if f.tail == 0 {
				err = f.ended()
			}
		default:
			b, err = f.header(b)
		}
		if err != nil {
			return err
		}
		if f.took += int64(was - len(b)); f.took > limits.RedisReplyBytes && !f.free {
			return refused("a message of more than %d bytes", limits.RedisReplyBytes)
		}
		if f.sum == 0 {
			f.took = 0
		}
	}
	return nil
}

// header reads a line, or as much of it as there is.
func (f *frames) header(b []byte) ([]byte, error) {
	i := bytes.IndexByte(b, '\n')
	part := b
	if i >= 0 {
		part = b[:i]
	}
	if len(f.line)+len(part) > limits.RedisLineBytes {
		return nil, refused("a line of more than %d bytes", limits.RedisLineBytes)
	}
	line := part
	if i < 0 || len(f.line) > 0 {
		f.line = append(f.line, part...)
		line = f.line
	}
	if i < 0 {
		return nil, nil
	}
	f.line = f.line[:0]
	return b[i+1:], f.start(line)
}

// start begins what a line declares.
func (f *frames) start(line []byte) error {
	if len(line) < 2 || line[len(line)-1] != '\r' {
		return refused("a line that is none")
	}
	kind, rest := line[0], line[1:len(line)-1]
	if len(f.open) == 0 {
		f.msg.kind, f.msg.parts, f.msg.n, f.sum = kind, 0, 0, 1
	}
	switch kind {
	case '$', '=', '!':
		n, err := declared(rest)
		switch {
		case err != nil:
			return err
		case n == -1 && kind == '$':
			return f.leaf(nil)
		case n < 0 || n > limits.RedisStringBytes && !f.free:
			return refused("a string of %d bytes; at most %d are taken", n, limits.RedisStringBytes)
		}
		f.msg.begin()
		f.body, f.tail = n, 2
		return nil
	case '*', '~', '%', '>':
		return f.aggregate(kind, rest)
	case ':':
		if _, err := declared(rest); err != nil {
			return err
		}
	case '#':
		if s := string(rest); s != "t" && s != "f" {
			return refused("a boolean that is %.10q", s)
		}
	case '_':
		if len(rest) > 0 {
			return refused("a null with %d bytes", len(rest))
		}
	case '+', '-', ',', '(':
	default:
		return refused("a message of the kind %q", kind)
	}
	return f.leaf(rest)
}

func (f *frames) aggregate(kind byte, rest []byte) error {
	n, err := declared(rest)
	if err != nil {
		return err
	}
	if n == -1 && kind == '*' {
		if len(f.open) == 0 {
			f.msg.parts = -1
		}
		return f.leaf(nil)
	}
	if kind == '%' && n <= limits.RedisReplyParts {
		n *= 2
	}
	switch {
	case kind == '>' && len(f.open) > 0:
		return refused("a push within a message")
	case len(f.open) > 0 && f.msg.kind == '>': // only of what we never ask for; and texts are told apart by place
		return refused("a list within a push")
	case n < 0 || n > limits.RedisReplyParts-f.sum && !f.free:
		return refused("a list of %d parts; a message may have %d", n, limits.RedisReplyParts)
	case len(f.open) == limits.RedisReplyDepth:
		return refused("lists in lists, more than %d deep", limits.RedisReplyDepth)
	}
	if len(f.open) == 0 {
		f.msg.parts = int(n)
	}
	f.sum += n
	f.open = append(f.open, int(n))
	if n == 0 {
		f.open = f.open[:len(f.open)-1]
		return f.ended()
	}
	return nil
}

// leaf ends a part that is a line.
func (f *frames) leaf(text []byte) error {
	f.msg.begin()
	f.msg.append(text)
	return f.ended()
}

// ended ends a part, and whatever ends with it.
func (f *frames) ended() error {
	for len(f.open) > 0 {
		last := len(f.open) - 1
		if f.open[last]--; f.open[last] > 0 {
			return nil
		}
		f.open = f.open[:last]
	}
	f.sum = 0
	return f.deliver(&f.msg)
}

// declared is a number of a line.
func declared(digits []byte) (int64, error) {
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || strings.HasPrefix(string(digits), "+") {
		return 0, refused("%.30q in place of a number", digits)
	}
	return n, nil
}
