package api

// KeyAnswer says where the records of a key are in a group or a subscription, and what holds them back.
type KeyAnswer struct {
	What        string       `json:"what"` // group or subscription
	Name        string       `json:"name"`
	Topic       string       `json:"topic"`
	Key         string       `json:"key"`
	KeyEncoding string       `json:"key_encoding,omitempty"`
	State       KeyState     `json:"state"`
	Blocked     []BlockedKey `json:"blocked"`           // what a subscription has parked or given up of it, by shard
	Waiting     []KeyWait    `json:"waiting"`           // what is not finished, by partition
	Holding     []Finding    `json:"holding"`           // what holds all records back there
	Unknown     []string     `json:"unknown,omitempty"` // what could not be found out
}

// KeyState is where the records of a key are.
type KeyState string

// The states.
const (
	KeyDone    KeyState = "done"        // no record of it waits: all were delivered, passed over, or decided about
	KeyWaiting KeyState = "waiting"     // it waits behind other records, or is with its owner right now
	KeyHeld    KeyState = "held"        // a record of it failed, and its owner holds it in memory
	KeyDelayed KeyState = "delayed"     // its time has not come
	KeyParked  KeyState = "parked"      // a record of it failed and is tried again
	KeyDead    KeyState = "dead-letter" // a record of it was given up, and the others wait behind that
	KeyUnknown KeyState = "unknown"     // see Unknown
)

// KeyWait is what waits of a key in one partition.
type KeyWait struct {
	Storage    int         `json:"storage"`
	Partition  int         `json:"partition"`
	Unit       int         `json:"unit"`
	Phase      Phase       `json:"phase"`
	Owner      string      `json:"owner"` // the living member that has the unit; "": none
	Epoch      int64       `json:"epoch"`
	Records    int         `json:"records"`               // of the key that are not finished
	Offset     int64       `json:"offset"`                // of the first of them
	ProducedAt Time        `json:"produced_at,omitempty"` // of it
	Before     int         `json:"before"`                // unfinished records before it in the partition, of other keys
	Held       *HeldRecord `json:"held,omitempty"`        // nil: it has not failed, or its owner does not store that
	Unseen     int64       `json:"unseen,omitempty"`      // offsets at the end that were not looked at
}

// HeldRecord is a failing record that an owner holds in memory.
type HeldRecord struct {
	Attempts int    `json:"attempts"`
	Since    Time   `json:"since"`
	Due      Time   `json:"due"`              // the next attempt
	Answer   string `json:"answer,omitempty"` // the last error; "": its owner does not store that
}
