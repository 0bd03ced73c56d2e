package api

// Check compares groups and subscriptions with thresholds, for monitoring.
type Check struct {
	Check    string     `json:"check"` // lag, age, dead-letters, owners or all
	At       Time       `json:"at"`
	State    CheckState `json:"state"` // the worst
	Measures []Measure  `json:"measures"`
	Findings []Finding  `json:"findings,omitempty"` // of "all": as [Status] has them; they count too
}

// Measure is one number of a group or a subscription.
type Measure struct {
	Check   string     `json:"check"`
	What    string     `json:"what"` // group or subscription
	Name    string     `json:"name"`
	Topic   string     `json:"topic"`
	Value   float64    `json:"value"`
	Warn    float64    `json:"warn"` // from this value on it is a warning
	Crit    float64    `json:"crit"` // from this value on it is critical
	State   CheckState `json:"state"`
	Problem string     `json:"problem,omitempty"` // why the value is not known
}

// CheckState is what a check says.
type CheckState string

// The states, the worst first.
const (
	CheckCritical CheckState = "critical"
	CheckUnknown  CheckState = "unknown" // it could not be looked at
	CheckWarning  CheckState = "warning"
	CheckOK       CheckState = "ok"
)
