package kafkalog

import (
	"encoding/binary"
	"fmt"

	"github.com/ringfence/ringfence/internal/limits"
)

// walk follows an answer through its bytes, in whatever pieces they come, before the client library makes
// memory for it: the library makes room for as many elements of a list as there are bytes left, though each
// takes more than one, and counts tagged fields to four billion without looking whether there are any. So a
// list has to have room for its elements, at the least that each can take.
//
// Tagged fields are what later versions of Kafka added to structures. The log needs none of those that the
// library knows, and what is in them would have to be followed too: they get a number that it doesn't know, so
// that it keeps them as bytes.
type walk struct {
	version  int16
	flexible bool
	left     int // bytes of the answer that are still to come
	plain    int // bytes that are not records
	tags     int

	open   []level
	skip   int
	asking asking // what the bytes are that are collected
	text   [5]byte
	got    int
	tagged int // tagged fields of the structure that are still to come
}

// level is a structure, or a list of single fields, that is being read.
type level struct {
	parts []part
	at    int
	more  int // elements after this one
	bare  bool
	ended bool // its tagged fields have been read
}

type asking byte

const (
	nothing asking = iota
	aString
	aBlob
	aList
	anError
	aPause
	aTagCount
	aTagKey
	aTagSize
)

func refusedAnswer(format string, args ...any) error {
	return fmt.Errorf("the broker does not speak as Kafka does: "+format, args...)
}

// begin begins an answer of so many bytes to a request.
func (w *walk) begin(key, version int16, size int) error {
	s := shapeOf(key)
	*w = walk{version: version, flexible: version >= s.flexible, left: size, open: w.open[:0]}
	w.open = append(w.open, level{parts: s.parts})
	if w.flexible && key != apiVersions { // of which who asks knows no version yet
		w.asking = aTagCount // of the header
		return nil
	}
	return w.advance()
}

// feed takes the bytes that come next, and hides tagged fields in them.
func (w *walk) feed(b []byte) error {
	w.left -= len(b)
	for len(b) > 0 {
		if w.skip > 0 {
			n := min(w.skip, len(b))
			w.skip -= n
			b = b[n:]
			if w.skip > 0 {
				return nil
			}
			if err := w.advance(); err != nil {
				return err
			}
			continue
		}
		if w.asking == nothing { // beyond the end: the library looks at nothing there
			return nil
		}
		if w.asking == aTagKey && w.got == 0 && b[0] < 0x80 {
			b[0] = 0x7f
		}
		w.text[w.got] = b[0]
		w.got++
		b = b[1:]
		if w.plain++; w.plain > limits.KafkaAnswerBytes {
			return refusedAnswer("an answer with more than %d bytes that are no records", limits.KafkaAnswerBytes)
		}
		n, ok, err := w.collected()
		if err != nil {
			return err
		}
		if ok {
			if err := w.asked(n, w.left+len(b)); err != nil {
				return err
			}
		}
	}
	return nil
}

// end says whether the answer is whole.
func (w *walk) end() error {
	if w.skip > 0 || w.asking != nothing {
		return refusedAnswer("an answer that ends in the middle")
	}
	return nil
}

// collected is the number that was collected, once it is whole; -1: none.
func (w *walk) collected() (n int, ok bool, err error) {
	short := w.flexible || w.asking >= aTagCount
	switch {
	case w.asking == anError && w.got == 2:
		return int(w.text[1]), true, nil
	case w.asking == aPause && w.got == 4:
		return int(int32(binary.BigEndian.Uint32(w.text[:4]))), true, nil //nolint:gosec // as it is meant
	case w.asking == anError, w.asking == aPause:
		return 0, false, nil
	case short && w.text[w.got-1] < 0x80:
		v, _ := binary.Uvarint(w.text[:w.got])
		if w.asking < aTagCount {
			return int(v) - 1, true, nil //nolint:gosec // of at most five bytes
		}
		return int(v), true, nil //nolint:gosec // as above
	case short && w.got == len(w.text):
		return 0, false, refusedAnswer("a length without an end")
	case !short && w.asking == aString && w.got == 2:
		return int(int16(binary.BigEndian.Uint16(w.text[:2]))), true, nil //nolint:gosec // as it is meant
	case !short && w.asking != aString && w.got == 4:
		return int(int32(binary.BigEndian.Uint32(w.text[:4]))), true, nil //nolint:gosec // as it is meant
	}
	return 0, false, nil
}

// asked takes a number that was collected; left is how many bytes come behind it.
func (w *walk) asked(n, left int) error {
	what := w.asking
	w.asking, w.got = nothing, 0
	switch what {
	case anError:
		if n == 35 { // the version is one that the broker doesn't know
			w.version, w.flexible = 0, false
		}
	case aPause: // the library keeps it, however long it is, on a connection that looks well all the time
		if n > limits.KafkaPauseMillis {
			return refusedAnswer("it wants to be asked nothing for %d ms; at most %d are taken", n, limits.KafkaPauseMillis)
		}
	case aList:
		top := &w.open[len(w.open)-1]
		p := &top.parts[top.at-1]
		if n > 0 && n > left/w.least(p.of, p.kind == bare) {
			return refusedAnswer("a list of %d elements in %d bytes", n, left)
		}
		if n > 0 {
			w.open = append(w.open, level{parts: p.of, more: n - 1, bare: p.kind == bare})
		}
	case aTagCount:
		w.tagged = n
		if w.tags += n; w.tags > limits.KafkaTags || n > left/2 {
			return refusedAnswer("an answer with %d tagged fields; at most %d are taken", w.tags, limits.KafkaTags)
		}
	case aTagKey:
		w.asking = aTagSize
		return nil
	case aString, aBlob, aTagSize:
		if n > left {
			return refusedAnswer("a field of %d bytes in %d bytes", n, left)
		}
		if n > 0 {
			w.skip = n
			if what != aBlob {
				w.plain += n
			}
			return nil
		}
	}
	return w.advance()
}

// advance goes on to the next bytes that say something.
func (w *walk) advance() error {
	for w.skip == 0 && w.asking == nothing {
		if w.tagged > 0 {
			w.tagged--
			w.asking = aTagKey
			return nil
		}
		if len(w.open) == 0 {
			return nil
		}
		top := &w.open[len(w.open)-1]
		if top.at < len(top.parts) {
			p := &top.parts[top.at]
			top.at++
			if w.version < p.first || w.version > p.last {
				continue
			}
			switch p.kind {
			case fixed:
				w.skip = p.bytes
				w.plain += p.bytes
			case words:
				w.asking = aString
			case blob:
				w.asking = aBlob
			case list, bare:
				w.asking = aList
			case failure:
				w.asking = anError
			case pause:
				w.asking = aPause
			}
			continue
		}
		switch {
		case w.flexible && !top.bare && !top.ended:
			top.ended, w.asking = true, aTagCount
		case top.more > 0:
			top.more--
			top.at, top.ended = 0, false
		default:
			w.open = w.open[:len(w.open)-1]
		}
	}
	if w.plain > limits.KafkaAnswerBytes {
		return refusedAnswer("an answer with more than %d bytes that are no records", limits.KafkaAnswerBytes)
	}
	return nil
}

// least is the fewest bytes that an element can have.
func (w *walk) least(parts []part, single bool) int {
	n := 0
	for _, p := range parts {
		if w.version < p.first || w.version > p.last {
			continue
		}
		switch {
		case p.kind == fixed:
			n += p.bytes
		case w.flexible:
			n++
		case p.kind == words:
			n += 2
		default:
			n += 4
		}
	}
	if w.flexible && !single {
		n++
	}
	return max(n, 1)
}
