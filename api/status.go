package api

// SubscriptionStatus is a subscription with all that is known of its deliveries.
type SubscriptionStatus struct {
	Subscription
	Backlog
	Group          *Group          `json:"group,omitempty"`           // nil: it was never delivered
	Breaker        *Breaker        `json:"breaker,omitempty"`         // nil: it has no member
	EndpointLimits *EndpointLimits `json:"endpoint_limits,omitempty"` // nil: the endpoint has no limits
	Limited        []MemberLimits  `json:"limited,omitempty"`         // what each member has of the limits
	// Problems are what could not be read, or keeps the subscription from being delivered. What they are about is missing.
	Problems []string `json:"problems,omitempty"`
}

// Deliveries is what the owner of a unit stores about its deliveries, with its progress. All but Failing is of a shard.
type Deliveries struct {
	At       Time          `json:"at"`
	HeldBack *HeldBack     `json:"held_back,omitempty"` // nil: the breaker is closed
	Backoff  float64       `json:"backoff,omitempty"`   // attempts a second that the process tries at most, as most are refused; 0: as many as it may
	Rate     float64       `json:"rate,omitempty"`      // attempts a second that the shard has begun lately; where there are limits
	Running  int           `json:"running,omitempty"`   // attempts of the shard under way; where there are limits
	Endpoint *EndpointPart `json:"endpoint,omitempty"`  // nil: the endpoint has no limits in this process

	Failing *FailingRecord `json:"failing,omitempty"` // of a group without a subscription: the record that has failed for the longest; nil: none does
}

// FailingRecord is a record whose handler fails again and again. Those of its key wait.
type FailingRecord struct {
	Storage   int    `json:"storage"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
	Key       string `json:"key,omitempty"` // cut, and quoted where it is no text; "": none
	Attempts  int    `json:"attempts"`
	Since     Time   `json:"since"`
	Due       Time   `json:"due"` // the next attempt
	Why       string `json:"why"` // the last error
	Member    string `json:"member"`
}

// HeldBack says why a shard delivers one record at a time.
type HeldBack struct {
	Since Time   `json:"since"`
	Why   string `json:"why"`               // the answer of the endpoint or the handler
	Next  Time   `json:"next_at,omitempty"` // nothing is tried before; "": one record is tried each second
}

// EndpointPart are the limits of an endpoint, and the part of one process; 0: no bound.
type EndpointPart struct {
	Rate            float64 `json:"rate,omitempty"`
	RateHere        float64 `json:"rate_here,omitempty"`
	Concurrency     int     `json:"concurrency,omitempty"`
	ConcurrencyHere int     `json:"concurrency_here,omitempty"`
}

// Breaker says where the deliveries of a subscription are held back.
type Breaker struct {
	State string        `json:"state"` // closed, or open in at least one member
	Open  []OpenBreaker `json:"open,omitempty"`
}

// OpenBreaker is a member whose breaker is open.
type OpenBreaker struct {
	Member string `json:"member"`
	Shards []int  `json:"shards"`
	HeldBack
}

// EndpointLimits are the limits of an endpoint, which members have by their flags.
type EndpointLimits struct {
	Origin  string           `json:"origin"`
	Members []MemberEndpoint `json:"members"`
	Used    *Used            `json:"used,omitempty"` // by all subscriptions of that origin; nil: not known
}

// MemberEndpoint is what one member knows of the limits of an endpoint, and has of them.
type MemberEndpoint struct {
	Member string `json:"member"`
	EndpointPart
}

// MemberLimits is what a member has of the limits of its subscription.
type MemberLimits struct {
	Member      string  `json:"member"`
	Rate        float64 `json:"rate,omitempty"` // attempts in a second
	Concurrency int     `json:"concurrency,omitempty"`
	Used        *Used   `json:"used,omitempty"`    // nil: not known, as it delivers nothing
	Backoff     float64 `json:"backoff,omitempty"` // attempts in a second that it tries at most, as most are refused; 0: as many as it may
}

// Used is what is used of limits.
type Used struct {
	Rate    float64 `json:"rate"`    // attempts that begin in a second
	Running int     `json:"running"` // attempts under way
	At      Time    `json:"at"`      // of the oldest part
}
