package api

// TopicSummary is one topic of a list.
type TopicSummary struct {
	Name       string `json:"name"`
	ID         string `json:"id,omitempty"`       // differs from that of a deleted topic of the same name
	Partitions int    `json:"partitions"`         // of the storage topic that takes new records
	Storages   int    `json:"storages"`           // storage topics that are not retired
	Created    Time   `json:"created"`            //
	Moved      *Moved `json:"moved,omitempty"`    // nil: the topic is in this log
	Internal   string `json:"internal,omitempty"` // what alone writes to the topic, such as a subscription
	Damaged    string `json:"damaged,omitempty"`  // why the definition can't be read; then only the name is known
}

// Topic describes a topic.
type Topic struct {
	Name      string         `json:"name"`
	ID        string         `json:"id"` // differs from that of a deleted topic of the same name
	Created   Time           `json:"created"`
	Router    Router         `json:"router"`
	Hash      Hash           `json:"hash"`
	Retention Retention      `json:"retention"`          // of each storage topic
	Altering  bool           `json:"altering,omitempty"` // some storage topics may still have the retention of before
	Produce   int            `json:"produce"`            // index of the storage topic that takes new records
	Kept      int64          `json:"kept"`               // records, at most
	Storage   []StorageTopic `json:"storage"`
	Groups    []TopicGroup   `json:"groups"`             // that consume the topic
	Moved     *Moved         `json:"moved,omitempty"`    // nil: the topic is in this log
	Internal  string         `json:"internal,omitempty"` // what alone writes to the topic, such as a subscription
}

// Router is the rule from the hash of a key to a partition.
type Router string

// The routers.
const (
	RouterModulo Router = "modulo" // keys stay in their shard when partitions are added in multiples of the first count
	RouterRange  Router = "range"  // keys stay in their shard for every number of shards that divides the partitions
)

// Hash is the hash function of keys.
type Hash string

// The hash functions.
const (
	HashXXHash64 Hash = "xxhash64"
	HashMurmur2  Hash = "murmur2" // as Kafka's own producers
	HashFNV1a    Hash = "fnv1a"
)

// Retention bounds what each storage topic of a topic keeps. The zero value keeps everything.
type Retention struct {
	Bytes int64 `json:"bytes"`  // about so many; 0: no bound
	AgeMS int64 `json:"age_ms"` // records for so many milliseconds; 0: for ever
	Force bool  `json:"force"`  // drop also what a group has not processed
}

// Moved says to which log a topic was moved. It takes no records in this log, and can't be consumed here.
type Moved struct {
	To   string `json:"to"`   // the log, for people
	Done bool   `json:"done"` // false: the cut-over has yet to be finished, or taken back
}

// StorageTopic describes a storage topic of a topic.
type StorageTopic struct {
	Index      int         `json:"index"`
	Name       string      `json:"name"`           // in the commit log
	K          int         `json:"k"`              // how many times its partitions grew over the first of its line
	State      string      `json:"state"`          // retired, sealed, producing or open
	Ends       []int64     `json:"ends,omitempty"` // by partition: where it was sealed; nil: it was not
	Partitions []Partition `json:"partitions"`     // none of a retired one
	Size       int         `json:"-"`              // how many partitions it has, or had before it was retired
}

// Retired says whether the storage topic is gone: all groups had finished it, and no record was left.
func (s *StorageTopic) Retired() bool { return s.State == "retired" }

// Partition is the readable range of a partition.
type Partition struct {
	Partition int    `json:"partition"`
	First     int64  `json:"first"` // lowest offset that is kept
	Next      int64  `json:"next"`  // every record is below it
	Sealed    bool   `json:"sealed"`
	Kept      int64  `json:"kept"`  // records, at most
	State     string `json:"state"` // producing, open or sealed
}

// TopicGroup is a group that consumes a topic.
type TopicGroup struct {
	Group   string         `json:"group"`
	Members int            `json:"members"`
	State   string         `json:"state"`             // as [Group.State]
	Storage []GroupStorage `json:"storage"`           // how far it got, by storage topic
	Damaged string         `json:"damaged,omitempty"` // why nothing is known of how far it got
}

// GroupStorage is how far a group got in one storage topic.
type GroupStorage struct {
	Index    int   `json:"index"`
	Lag      int64 `json:"lag"`
	Finished bool  `json:"finished"` // it is sealed, and all of it is processed
}

// RetentionChange says what a change of a topic's retention did, or would do.
type RetentionChange struct {
	Topic  string    `json:"topic"`
	Before Retention `json:"before"`
	After  Retention `json:"after"`
	Done   bool      `json:"done"` // false: a dry run
	// Drops are the partitions that lose records by the new retention, or would lose them if no group needed them.
	Drops []RetentionDrop `json:"drops"`
}

// RetentionDrop is what a retention drops of one partition. The numbers are estimates: a log drops in units of its
// own, some of it later, and the bytes are those of samples.
type RetentionDrop struct {
	Storage   int   `json:"storage"`
	Partition int   `json:"partition"`
	First     int64 `json:"first"` // lowest offset that is kept now
	Until     int64 `json:"until"` // lowest offset that stays
	Records   int64 `json:"records"`
	Bytes     int64 `json:"bytes"`
	Held      int64 `json:"held"` // records that are due too, and stay until each group has processed them
}

// TopicPlan says what growing a topic would do.
type TopicPlan struct {
	Topic  string         `json:"topic"`
	Change string         `json:"change"`
	From   PlannedStorage `json:"from"` // takes new records before
	To     PlannedStorage `json:"to"`   // and after
	Router Router         `json:"router"`
	Hash   Hash           `json:"hash"`
	// Parents is how many partitions of From have to be finished before one of To starts: all of them, unless the
	// counts let the router tell which ones can hold earlier records of a key.
	Parents  int         `json:"parents"`
	Shards   []ShardPlan `json:"shards,omitempty"`   // for each count that was asked about
	Warnings []string    `json:"warnings,omitempty"` // what is allowed and not wise
	Refused  string      `json:"refused,omitempty"`  // why the change would break the order of keys; "": it would not
	Remedy   string      `json:"remedy,omitempty"`   // what to do instead
}

// TopicGrowth says what adding a storage topic, or switching to one, did or would do.
type TopicGrowth struct {
	TopicPlan
	Done    bool    `json:"done"`           // false: a dry run
	Storage int     `json:"storage"`        // index of the storage topic that it is about
	Produce int     `json:"produce"`        // index of the storage topic that takes new records
	Ends    []int64 `json:"ends,omitempty"` // by partition: where the storage topic before was sealed
}

// PlannedStorage is a storage topic in a plan.
type PlannedStorage struct {
	Name       string `json:"name"`
	Partitions int    `json:"partitions"`
	K          int    `json:"k"`
}

// ShardPlan says what a change means for consumers that split each storage topic into a fixed number of shards: of S
// shards of P partitions shard s owns the partitions from s·P/S up to (s+1)·P/S.
type ShardPlan struct {
	Shards int     `json:"shards"`
	Order  bool    `json:"order"` // every key stays in its shard
	Moved  float64 `json:"moved"` // share of the keys that change their shard
	Even   bool    `json:"even"`  // all shards have as many partitions of To
}

// Retirement says what became of the sealed storage topics of a topic.
type Retirement struct {
	Topic   string        `json:"topic"`
	Done    bool          `json:"done"`    // false: a dry run
	Retired []int         `json:"retired"` // indexes
	Kept    []KeptStorage `json:"kept"`    // the others, from the oldest on
}

// KeptStorage says why a sealed storage topic is not retired.
type KeptStorage struct {
	Index int    `json:"index"`
	Why   string `json:"why"`
}

// Deletion says what an order to delete removed, or would remove.
type Deletion struct {
	What    string   `json:"what"` // topic, group, subscription or ring
	Name    string   `json:"name"`
	Records *int64   `json:"records"`          // of a topic; nil: not known
	Groups  []string `json:"groups,omitempty"` // that lose their progress in a topic
	Deleted bool     `json:"deleted"`          // false: a dry run
}
