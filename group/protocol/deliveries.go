package protocol

import (
	"encoding/json"
	"reflect"
)

// Deliveries is what the owner of a unit tells of its deliveries, for people: nothing is decided by it. It is true of
// the epoch of its checkpoint alone. Times are in Unix milliseconds. All but Failing is of a subscription's shard.
type Deliveries struct {
	At       int64         `json:"at"`                  // when it was so
	HeldBack *HeldBack     `json:"held_back,omitempty"` // nil: the breaker is closed
	Eased    float64       `json:"eased,omitempty"`     // attempts a second that the process tries at most, as most are refused; 0: as many as it may
	Rate     float64       `json:"rate,omitempty"`      // attempts a second that the shard has begun lately; only where there are limits
	Running  int           `json:"running,omitempty"`   // attempts of the shard under way; only where there are limits
	Endpoint *EndpointPart `json:"endpoint,omitempty"`  // nil: its endpoint has no limits in the process

	Failing *FailingRecord `json:"failing,omitempty"` // of a group without a subscription: the record that has failed for the longest; nil: none does
}

// FailingRecord is a record whose handler fails: those of its key wait.
type FailingRecord struct {
	Storage   int    `json:"storage"`
	Partition int    `json:"partition"`
	Key       string `json:"key,omitempty"` // as it is shown; "": none
	Why       string `json:"why"`           // what the handler said last; at most MaxWhyBytes
	Failing
}

// HeldBack says why a shard delivers, for now, only one record at a time.
type HeldBack struct {
	Since int64  `json:"since"`
	Why   string `json:"why"`            // what the endpoint, or the handler, said; at most MaxWhyBytes
	Next  int64  `json:"next,omitempty"` // nothing is tried before, as an answer asked for; 0: one each second
}

// EndpointPart is the limits of an endpoint, and the part of the owner's process; 0: no bound.
type EndpointPart struct {
	Rate            float64 `json:"rate,omitempty"`
	RateHere        float64 `json:"rate_here,omitempty"`
	Concurrency     int     `json:"concurrency,omitempty"`
	ConcurrencyHere int     `json:"concurrency_here,omitempty"`
}

// MaxWhyBytes bounds what a checkpoint says about an outage.
const MaxWhyBytes = 256

// Same reports whether two say the same, at any time; nil says nothing.
func (d *Deliveries) Same(o *Deliveries) bool {
	var a, b Deliveries
	if d != nil {
		a = *d
	}
	if o != nil {
		b = *o
	}
	a.At, b.At = 0, 0
	return reflect.DeepEqual(a, b)
}

// append adds it to the stored form of a checkpoint.
func (d *Deliveries) append(b []byte) []byte {
	if d == nil {
		return b
	}
	told, err := json.Marshal(d)
	if err != nil { // a number that is none; it is only for people
		return b
	}
	return append(append(b, `,"deliveries":`...), told...)
}
