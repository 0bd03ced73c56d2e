package api

// DeadLetter is a record of a subscription that is not delivered until it is decided about, or one that was decided about: it was
// a dead letter or, if it was skipped or discarded, it may have been tried again.
type DeadLetter struct {
	ID            string           `json:"id"`
	Topic         string           `json:"topic"`
	Storage       int              `json:"storage"`
	Partition     int              `json:"partition"`
	Offset        int64            `json:"offset"`
	Key           *string          `json:"key"` // null: the record has no key
	KeyEncoding   string           `json:"key_encoding,omitempty"`
	Value         string           `json:"value"`
	ValueEncoding string           `json:"value_encoding,omitempty"`
	Headers       []Header         `json:"headers"`
	Attempts      int              `json:"attempts"`
	Reason        string           `json:"reason"` // attempts or permanent; "" while it waits, and when it was decided about before it was given up
	Status        DeadLetterStatus `json:"status"`
	Ordered       DeadLetterStatus `json:"ordered,omitempty"` // what it becomes as soon as a member is there; "": nothing is decided
	Answer        string           `json:"answer"`            // the last error
	FailedAt      Time             `json:"failed_at"`         // for the first time
	DecidedAt     Time             `json:"decided_at,omitempty"`
	DecidedBy     string           `json:"decided_by,omitempty"` // the user that gave the order
	Lost          string           `json:"lost,omitempty"`       // why value and headers are missing: it can only be skipped or discarded
}

// KeyText is the key, or "" for none.
func (d *DeadLetter) KeyText() string {
	if d.Key == nil {
		return ""
	}
	return *d.Key
}

// DeadLetterStatus says what holds a record back, or what was decided about it.
type DeadLetterStatus string

// The statuses.
const (
	Failed    DeadLetterStatus = "failed"    // it was given up
	Blocked   DeadLetterStatus = "blocked"   // it waits behind a failed record of its key
	Redriven  DeadLetterStatus = "redriven"  // it was delivered again, or is as soon as it may be
	Skipped   DeadLetterStatus = "skipped"   // it was passed over
	Discarded DeadLetterStatus = "discarded" // it was finished as it is
	Edited    DeadLetterStatus = "edited"    // it was delivered again with another value, or is as soon as it may be
)

// BlockedKey says what holds records of a key back in one shard of a subscription.
type BlockedKey struct {
	Shard     int              `json:"shard"`
	Owner     string           `json:"owner"` // the member that delivers the shard; "": none
	Epoch     int64            `json:"epoch"`
	ID        string           `json:"id"`                // of the first parked record of the key
	Status    string           `json:"status"`            // of that record: failed, retrying or delayed
	Ordered   DeadLetterStatus `json:"ordered,omitempty"` // what it becomes as soon as a member is there
	Attempts  int              `json:"attempts"`
	Reason    string           `json:"reason"`    // attempts or permanent, once it failed
	Answer    string           `json:"answer"`    // the last error
	FailedAt  Time             `json:"failed_at"` // for the first time; "": it has not failed
	Due       Time             `json:"due"`       // the next attempt; "": as soon as it can be, or never, when it failed
	Followers int              `json:"followers"` // records of the key that are parked behind it
}

// DeadLetterOrder says about how many dead letters, or parked records, an order was given.
type DeadLetterOrder struct {
	Subscription string `json:"subscription"`
	Order        string `json:"order"` // redrive, skip, discard, edit or retry
	Records      int    `json:"records"`
	DryRun       bool   `json:"dry_run,omitempty"`
	Waits        bool   `json:"waits,omitempty"` // no member is there to carry it out
}
