// Package document has what programs read of topics, groups and records: one JSON document for each,
// whoever shows it.
package document

import "time"

// Time is a Unix time in milliseconds as people and programs read it.
func Time(millis int64) string {
	return time.UnixMilli(millis).UTC().Format("2006-01-02T15:04:05.000Z")
}
