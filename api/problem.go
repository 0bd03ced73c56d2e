package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
)

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

const problemPrefix = "urn:ringfence:"

// Problem is the answer to a request that failed, as RFC 9457 has it. It is an error, and errors.Is finds in it the
// errors of this module that the daemon met.
type Problem struct { //nolint:errname // the word of RFC 9457
	Type     string         `json:"type"`               // urn:ringfence: and a word for the kind: not-found, fenced …
	Title    string         `json:"title"`              // the kind, for people
	Status   int            `json:"status"`             // of the answer
	Detail   string         `json:"detail"`             // what was expected, what was found, what to do
	Instance string         `json:"instance,omitempty"` // the path of the request
	Errors   []ProblemError `json:"errors,omitempty"`   // what is wrong at which place of the request
	Stored   Stored         `json:"stored,omitempty"`   // of an order or a record
	Records  []Place        `json:"records,omitempty"`  // of several records, some of which are stored
	Why      string         `json:"why,omitempty"`      // of a session that is over: the word of its end
	RetryMS  int64          `json:"retry_ms,omitempty"` // a new one should not begin before
}

// Stored says what became of a record or an order that failed.
type Stored string

// The answers; the empty one says nothing.
const (
	StoredNo      Stored = "no"      // certainly not
	StoredUnknown Stored = "unknown" // it may be stored
)

// ProblemError is one fault of a request.
type ProblemError struct {
	At      string `json:"at"` // a parameter, or a place in the body
	Message string `json:"message"`
}

// ProblemOf describes an error.
func ProblemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	slug := fault.Slug(err)
	p = &Problem{Type: problemPrefix + slug, Title: "internal error", Status: fault.HTTPStatus(err), Detail: err.Error()}
	if kind := fault.OfSlug(slug); kind != nil {
		p.Title = kind.Error()
	}
	switch {
	case errors.Is(err, fault.Unknown), errors.Is(err, context.DeadlineExceeded):
		p.Stored = StoredUnknown
	case errors.Is(err, fault.NotDone):
		p.Stored = StoredNo
	}
	return p
}

// ParseProblem reads a problem. What is none, such as the answer of a proxy, is an error with its status.
func ParseProblem(status int, body []byte) error {
	var p Problem
	if json.Unmarshal(body, &p) == nil && strings.HasPrefix(p.Type, problemPrefix) {
		return &p
	}
	const most = 200
	return fmt.Errorf("the server answers %d, and not as a daemon of Ringfence does: %.*q: %w", status, most, body, fault.Unavailable)
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// Is finds the kind of the error, and beside it whether a write is known to have left no trace.
func (p *Problem) Is(target error) bool {
	if kind := fault.OfSlug(strings.TrimPrefix(p.Type, problemPrefix)); kind != nil && errors.Is(kind, target) {
		return true
	}
	return p.Stored == StoredNo && target == fault.NotDone || p.Stored == StoredUnknown && target == fault.Unknown
}
