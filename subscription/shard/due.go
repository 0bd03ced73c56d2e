package shard

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ringfence/ringfence/commitlog"
)

// NotBefore is the header of a record to be delivered later: not before that time, in RFC 3339 or in Unix
// milliseconds. Of several the last counts.
//
// Such a record is parked as it comes, so that it holds up neither its partition nor a checkpoint, whatever
// becomes of its owner; its key waits behind it. Waiting is no attempt. The journal keeps a time within the
// longest pause; then the record is looked at again.
const NotBefore = "ringfence-not-before"

// LongestPause bounds a pause, a hold or a delay.
const LongestPause = 365 * 24 * time.Hour

// CheckNotBefore is the error of a record whose header NotBefore says nothing, for those that produce.
func CheckNotBefore(headers []commitlog.Header) error {
	if !slices.ContainsFunc(headers, func(h commitlog.Header) bool { return h.Name == NotBefore }) {
		return nil
	}
	_, err := notBefore(&commitlog.Record{Headers: headers}, time.Now)
	return err
}

// notBefore returns when a record may be delivered; zero: now. A header without a valid time, or with one of more
// than a year ahead, is an error: the record is given up at once.
func notBefore(r *commitlog.Record, clock func() time.Time) (time.Time, error) {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Name != NotBefore {
			continue
		}
		text, now := string(r.Headers[i].Value), clock()
		at, err := time.Parse(time.RFC3339, text)
		if ms, notNumber := strconv.ParseInt(text, 10, 64); notNumber == nil {
			at, err = time.UnixMilli(ms), nil
		}
		switch {
		case err != nil:
			return time.Time{}, Permanent(fmt.Errorf("header %s: %.64q; expected a time as 2006-01-02T15:04:05Z, or Unix milliseconds", NotBefore, text))
		case at.After(now.Add(LongestPause)):
			return time.Time{}, Permanent(fmt.Errorf("header %s: %.64q; expected a time within a year", NotBefore, text))
		case at.After(now):
			return at, nil
		}
		return time.Time{}, nil
	}
	return time.Time{}, nil
}
