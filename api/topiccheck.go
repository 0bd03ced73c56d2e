package api

// TopicCheck is a topic as the registry and the log have it, side by side.
type TopicCheck struct {
	Topic   string           `json:"topic"`
	ID      string           `json:"id"` // of the definition, or what the log has where the registry knows none
	Storage []CheckedStorage `json:"storage"`
	// Differences are what the registry does not know of what the log has. Empty: the two agree.
	Differences []string `json:"differences"`
	// Problem is why the definition can't be brought forward; "": it can.
	Problem  string `json:"problem,omitempty"`
	Repaired bool   `json:"repaired"` // the definition is now as the log says
}

// CheckedStorage is one storage topic in both.
type CheckedStorage struct {
	Index    int    `json:"index"`
	Name     string `json:"name"`
	Registry string `json:"registry"` // its state by the definition, as StorageTopic.State; "unknown"
	Log      string `json:"log"`      // "open", "sealed" or "missing"
}
