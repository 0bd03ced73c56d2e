// Package api describes what people and programs read of topics, groups, subscriptions, dead letters and rings:
// one struct a thing, with its JSON form in the tags.
//
// Package admin returns these structs, the command line prints them with --format json as they are, and
// daemons answer with them and their clients decode them. The routes of a daemon are here too, see [Routes].
//
// In these structs a text is a text: a time is a [Time], and keys and values are strings, with an encoding
// beside them for bytes that are no UTF-8, see [Text].
package api

import (
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"
)

// Time is a moment in RFC 3339, in UTC, with milliseconds: "2026-01-31T12:00:00.000Z". The empty text is no time.
// Two times compare as texts.
type Time string

const timeLayout = "2006-01-02T15:04:05.000Z"

// TimeOf writes a time; the zero time is "".
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return ""
	}
	return Time(t.UTC().Format(timeLayout))
}

// Millis writes a Unix time in milliseconds; 0 is "".
func Millis(ms int64) Time {
	if ms == 0 {
		return ""
	}
	return TimeOf(time.UnixMilli(ms))
}

// Time reads the text; what is no time is the zero time.
func (t Time) Time() time.Time {
	at, err := time.Parse(time.RFC3339, string(t))
	if err != nil {
		return time.Time{}
	}
	return at
}

// base64Encoding marks a text that holds bytes in base64.
const base64Encoding = "base64"

// Text writes bytes as a text and its encoding: "" for UTF-8, "base64" for everything else.
func Text(b []byte) (text, encoding string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return base64.StdEncoding.EncodeToString(b), base64Encoding
}

// Bytes reads what Text wrote.
func Bytes(text, encoding string) ([]byte, error) {
	switch encoding {
	case "":
		return []byte(text), nil
	case base64Encoding:
		return base64.StdEncoding.DecodeString(text)
	}
	return nil, fmt.Errorf("encoding %q: expected %q or none", encoding, base64Encoding)
}

// KeyText writes the key of a record: nil for a record without a key.
func KeyText(key []byte) (text *string, encoding string) {
	if key == nil {
		return nil, ""
	}
	s, encoding := Text(key)
	return &s, encoding
}
