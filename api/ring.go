package api

// Ring describes a ring.
type Ring struct {
	Ring    string       `json:"ring"`
	Mode    string       `json:"mode"`            // anchor or table
	Slots   int          `json:"slots,omitempty"` // of a table ring
	Epoch   int64        `json:"epoch"`           // grows when the members change
	Reason  string       `json:"reason"`          // of the last change
	Members []RingMember `json:"members"`
	Damaged string       `json:"damaged,omitempty"` // why the ring can't be read; then only the name is known
}

// RingMember describes a member of a ring.
type RingMember struct {
	ID          string  `json:"id"`
	Share       float64 `json:"share"` // of the keys, 0 to 1
	Incarnation string  `json:"incarnation"`
	Host        string  `json:"host"`
	PID         int     `json:"pid"`
	Joined      Time    `json:"joined"`
}

// RingOwner says which member of a ring has a key.
type RingOwner struct {
	Key   string `json:"key"`
	Owner string `json:"owner"` // "": none
	Epoch int64  `json:"epoch"`
	Slot  *int   `json:"slot,omitempty"` // of a table ring
	Mine  *bool  `json:"mine,omitempty"` // the member that was asked has it; nil: no member was asked
}
