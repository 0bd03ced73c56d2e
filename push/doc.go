// Package push delivers records to HTTP endpoints: one POST a record, of its value.
//
// What an endpoint answers is data of a stranger: of an answer at most 64 KiB are read, it is shown
// quoted and cut, and a redirection is a failure. What a record holds gets into a request only as its
// body, or as a header that was checked or encoded. Where a name leads to is looked at when the address
// is dialed, so that it can't change in between: addresses for special purposes, such as those of this
// host, of private networks and of a cloud's metadata, are refused unless they were allowed.
package push
