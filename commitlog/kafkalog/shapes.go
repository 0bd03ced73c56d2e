package kafkalog

import (
	"strconv"
	"strings"
)

// shape is what an answer of the protocol consists of, in the order of the wire.
type shape struct {
	flexible int16 // the first version with short lengths and tagged fields
	parts    []part
}

// part is one field.
type part struct {
	kind        byte
	first, last int16  // the versions that have it
	bytes       int    // of fixed
	of          []part // of lists
}

// The kinds of fields.
const (
	fixed   = 'n' // so many bytes
	pause   = 't' // for how many ms the broker wants to be asked nothing
	failure = 'e' // an error code, of which one says that the answer is of version 0
	words   = 's' // a string, or none
	blob    = 'b' // bytes whose content is somebody else's matter
	list    = '[' // of structures
	bare    = '(' // of single fields
)

// shapes are the answers to what this log and its client ask, by the key of the request. A number is a
// field of so many bytes, s a string, b bytes, [ ] a list of structures, ( ) a list of single fields; before
// a colon stand the versions that have it, t is the pause that a broker asks for.
var shapeTexts = map[int16]struct {
	flexible int16
	text     string
}{
	0:  {9, "[ -12:s 13-:16 [ 4 2 8 2-:8 5-:8 8-:[ 4 s ] 8-:s ] ] 1-:t"},                                               // Produce
	1:  {12, "1-:t 7-:2 7-:4 [ -12:s 13-:16 [ 4 2 8 4-:8 5-:8 4-:[ 8 8 ] 11-:4 b ] ]"},                                 // Fetch
	2:  {6, "2-:t [ s [ 4 2 -0:( 8 ) 1-:8 1-:8 4-:4 ] ]"},                                                              // ListOffsets
	3:  {9, "3-:t [ 4 s 4 1-:s ] 2-:s 1-:4 [ 2 s 10-:16 1-:1 [ 2 4 4 7-:4 ( 4 ) ( 4 ) 5-:( 4 ) ] 8-:4 ] 8-10:4 13-:2"}, // Metadata
	8:  {8, "3-:t [ -9:s 10-:16 [ 4 2 ] ]"},                                                                            // OffsetCommit
	10: {3, "1-:t -3:2 1-3:s -3:4 -3:s -3:4 4-:[ s 4 s 4 2 s ]"},                                                       // FindCoordinator
	17: {1 << 14, "2 ( s )"},                                                                                           // SASLHandshake
	18: {3, "e [ 2 2 2 ] 1-:t"},                                                                                        // ApiVersions
	19: {5, "2-:t [ s 7-:16 2 1-:s 5-:4 5-:2 5-:[ s s 1 1 1 ] ]"},                                                      // CreateTopics
	20: {4, "1-:t [ s 6-:16 2 5-:s ]"},                                                                                 // DeleteTopics
	21: {2, "t [ s [ 4 8 2 ] ]"},                                                                                       // DeleteRecords
	22: {2, "t 2 8 2"},                                                                                                 // InitProducerID
	32: {4, "t [ 2 s 1 s [ s s 1 -0:1 1-:1 1 1-:[ s s 1 ] 3-:1 3-:s ] ]"},                                              // DescribeConfigs
	36: {2, "2 s b 1-:8"},                                                                                              // SASLAuthenticate
	37: {2, "t [ s 2 s ]"},                                                                                             // CreatePartitions
	44: {1, "t [ 2 s 1 s ]"},                                                                                           // IncrementalAlterConfigs
	61: {0, "t [ s [ 4 2 s [ 8 4 4 8 4 8 ] ] ]"},                                                                       // DescribeProducers
	71: {0, "t 2 16 4 ( 1 ) 4 4 1 ( s )"},                                                                              // GetTelemetrySubscriptions
	72: {0, "t 2"},                                                                                                     // PushTelemetry
}

// shapeOf reads one of them; one without parts when there is none.
func shapeOf(key int16) shape {
	s := shapeTexts[key]
	parts, _ := parseParts(strings.Fields(s.text))
	return shape{s.flexible, parts}
}

// parseParts reads fields up to the end of their list.
func parseParts(tokens []string) (parts []part, rest []string) {
	for len(tokens) > 0 {
		token := tokens[0]
		tokens = tokens[1:]
		if token == "]" || token == ")" {
			return parts, tokens
		}
		p := part{last: 1 << 14}
		if versions, what, ok := strings.Cut(token, ":"); ok {
			from, to, _ := strings.Cut(versions, "-")
			token, p.first = what, number(from, 0)
			p.last = number(to, p.last)
		}
		switch p.kind = token[0]; p.kind {
		case list, bare:
			p.of, tokens = parseParts(tokens)
		case words, blob, failure, pause:
		default:
			p.kind, p.bytes = fixed, int(number(token, 0))
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func number(s string, otherwise int16) int16 {
	n, err := strconv.ParseInt(s, 10, 16)
	if err != nil {
		return otherwise
	}
	return int16(n)
}
