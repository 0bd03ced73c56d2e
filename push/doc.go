// Package push delivers records to HTTP endpoints: one POST a record, of its value.
//
// An endpoint's answer is untrusted: at most 64 KiB of it are read, it is shown quoted and cut, and a
// redirection is a failure. A record gets into a request only as its body, or as a header that was
// checked or encoded. The address of a name is checked when it is dialed, so that it can't change in
// between: addresses for special purposes, such as those of this host, of private networks and of a
// cloud's metadata, are refused unless they were allowed.
package push
