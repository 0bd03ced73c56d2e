package api

import (
	"encoding/json"
	"reflect"
)

// V1 are the routes of the API, version 1.
var V1 = routes() //nolint:gochecknoglobals // a table, never changed

// Routes are the operations of the API of a daemon. The Go client and the daemon use them as they stand here, and the
// OpenAPI document and the test of who may do what are made of them.
type Routes struct {
	Me         Call[None, *Me]
	ListTokens Call[None, List[Token]]
	MakeToken  Call[MakeToken, *NewToken]
	EndToken   Call[TokenRef, *Token]

	ListTopics    Call[None, List[TopicSummary]]
	DescribeTopic Call[TopicRef, Topic]
	CreateTopic   Call[CreateTopic, Topic]
	AlterTopic    Call[AlterTopic, *RetentionChange]
	DeleteTopic   Call[DeleteTopic, *Deletion]
	AddStorage    Call[AddStorage, Topic]
	SwitchProduce Call[TopicRef, Topic]
	CheckTopic    Call[TopicRef, *TopicCheck]
	RepairTopic   Call[RepairTopic, *TopicCheck]

	Produce     Call[Produce, Produced]
	ReadRecords Call[ReadRecords, None]

	ListGroups    Call[ListGroups, List[Group]]
	DescribeGroup Call[GroupRef, Group]
	PauseGroup    Call[PauseGroup, None]
	ResumeGroup   Call[PauseGroup, None]
	SeekGroup     Call[SeekGroup, *Seek]
	DeleteGroup   Call[DeleteGroup, None]

	ListSubscriptions    Call[ListSubscriptions, List[SubscriptionStatus]]
	DescribeSubscription Call[SubscriptionRef, *SubscriptionStatus]
	CreateSubscription   Call[CreateSubscription, *Subscription]
	AlterSubscription    Call[AlterSubscription, *Subscription]
	PauseSubscription    Call[PauseSubscription, *Subscription]
	ResumeSubscription   Call[SubscriptionRef, *Subscription]
	RetrySubscription    Call[RetrySubscription, *DeadLetterOrder]
	ReshardSubscription  Call[ReshardSubscription, *Reshard]
	ResetSubscription    Call[ResetSubscription, *Reset]
	DeleteSubscription   Call[DeleteSubscription, None]

	ListDeadLetters    Call[DeadLetters, List[DeadLetter]]
	RedriveDeadLetters Call[DeadLetters, *DeadLetterOrder]
	SkipDeadLetters    Call[DeadLetters, *DeadLetterOrder]
	DiscardDeadLetters Call[DeadLetters, *DeadLetterOrder]
	EditDeadLetter     Call[EditDeadLetter, *DeadLetterOrder]

	ListRings     Call[None, List[Ring]]
	DescribeRing  Call[RingRef, *Ring]
	FindRingOwner Call[RingKey, *RingOwner]

	JoinGroup     Call[JoinGroup, None]
	Work          Call[Work, None]
	ReadSession   Call[ReadSession, None]
	AnswerSession Call[AnswerSession, Refusals]
	EndSession    Call[SessionRef, None]

	Status               Call[None, *Status]
	Check                Call[RunCheck, *Check]
	ExplainKey           Call[KeyRef, *KeyAnswer]
	ExplainSubscribedKey Call[SubscribedKeyRef, *KeyAnswer]
}

func routes() *Routes {
	r := &Routes{
		Me:         global(get[None, *Me]("me", Authenticated, "Which principal the request comes from, and what it may do.")),
		ListTokens: global(get[None, List[Token]]("tokens", TokenWrite, "The tokens, without their secrets.")),
		MakeToken:  global(post[MakeToken, *NewToken]("tokens", TokenWrite, "Make a token. Its secret is in the answer, and nowhere else.")),
		EndToken:   global(remove[TokenRef, *Token]("tokens/{token}", TokenWrite, "Revoke a token, for good.")),

		ListTopics:    get[None, List[TopicSummary]]("topics", TopicRead, "The topics."),
		DescribeTopic: get[TopicRef, Topic]("topics/{topic}", TopicRead, "A topic with its partitions and groups."),
		CreateTopic:   put[CreateTopic, Topic]("topics/{topic}", TopicWrite, "Make a topic, unless it is there."),
		AlterTopic:    patch[AlterTopic, *RetentionChange]("topics/{topic}", TopicWrite, "Change the retention of a topic."),
		DeleteTopic:   remove[DeleteTopic, *Deletion]("topics/{topic}", TopicWrite, "Delete a topic and its records, for good."),
		AddStorage:    post[AddStorage, Topic]("topics/{topic}:add-storage", TopicWrite, "Add a storage topic with another number of partitions."),
		SwitchProduce: post[TopicRef, Topic]("topics/{topic}:switch", TopicWrite, "Let new records go to the next storage topic."),
		CheckTopic:    post[TopicRef, *TopicCheck]("topics/{topic}:check", TopicRead, "Compare what the log and the registry know of a topic."),
		RepairTopic:   post[RepairTopic, *TopicCheck]("topics/{topic}:repair", TopicWrite, "Bring the registry forward to what the log has."),

		Produce:     post[Produce, Produced]("topics/{topic}/records", RecordWrite, "Append records, one or as JSON lines."),
		ReadRecords: stream(get[ReadRecords, None]("topics/{topic}/records", RecordRead, "The records of a topic, as JSON lines or server-sent events.")),

		ListGroups:    get[ListGroups, List[Group]]("groups", GroupRead, "The consumer groups."),
		DescribeGroup: get[GroupRef, Group]("groups/{group}", GroupRead, "A group with its members, units and lag."),
		PauseGroup:    post[PauseGroup, None]("groups/{group}:pause", GroupOperate, "Stop the intake of a group, or of some partitions."),
		ResumeGroup:   post[PauseGroup, None]("groups/{group}:resume", GroupOperate, "End a pause."),
		SeekGroup:     post[SeekGroup, *Seek]("groups/{group}:seek", GroupOperate, "Send a group to a place in its topic."),
		DeleteGroup:   remove[DeleteGroup, None]("groups/{group}", GroupOperate, "Delete a group and its progress."),

		ListSubscriptions:    get[ListSubscriptions, List[SubscriptionStatus]]("subscriptions", SubRead, "The subscriptions."),
		DescribeSubscription: get[SubscriptionRef, *SubscriptionStatus]("subscriptions/{subscription}", SubRead, "A subscription with all that is known of its deliveries."),
		CreateSubscription:   put[CreateSubscription, *Subscription]("subscriptions/{subscription}", SubWrite, "Make a subscription, unless it is there."),
		AlterSubscription:    patch[AlterSubscription, *Subscription]("subscriptions/{subscription}", SubWrite, "Change the settings that are named, while it is delivered."),
		PauseSubscription:    post[PauseSubscription, *Subscription]("subscriptions/{subscription}:pause", SubOperate, "Deliver nothing until it is resumed."),
		ResumeSubscription:   post[SubscriptionRef, *Subscription]("subscriptions/{subscription}:resume", SubOperate, "End a pause."),
		RetrySubscription:    post[RetrySubscription, *DeadLetterOrder]("subscriptions/{subscription}:retry", SubOperate, "Try failing records now."),
		ReshardSubscription:  post[ReshardSubscription, *Reshard]("subscriptions/{subscription}:reshard", SubOperate, "Change the number of shards, while it is delivered."),
		ResetSubscription:    post[ResetSubscription, *Reset]("subscriptions/{subscription}:reset", SubOperate, "Send a subscription to a place in its topic."),
		DeleteSubscription:   remove[DeleteSubscription, None]("subscriptions/{subscription}", SubWrite, "Delete a subscription and its progress."),

		ListDeadLetters:    get[DeadLetters, List[DeadLetter]]("subscriptions/{subscription}/dead-letters", RecordRead, "What is not delivered until it is decided about."),
		RedriveDeadLetters: post[DeadLetters, *DeadLetterOrder]("subscriptions/{subscription}/dead-letters:redrive", LetterOperate, "Deliver dead letters again, each in its place in the order of its key."),
		SkipDeadLetters:    post[DeadLetters, *DeadLetterOrder]("subscriptions/{subscription}/dead-letters:skip", LetterOperate, "Finish dead letters that were dealt with in another way."),
		DiscardDeadLetters: post[DeadLetters, *DeadLetterOrder]("subscriptions/{subscription}/dead-letters:discard", LetterOperate, "Finish dead letters as they are."),
		EditDeadLetter:     put[EditDeadLetter, *DeadLetterOrder]("subscriptions/{subscription}/dead-letters/{letter}/value", RecordWrite, "Deliver a dead letter again with another value."),

		JoinGroup:     stream(post[JoinGroup, None]("groups/{group}/sessions", GroupConsume, "Begin a session that is a member of a group.")),
		Work:          stream(post[Work, None]("subscriptions/{subscription}/sessions", SubConsume, "Begin a session that works on a subscription.")),
		ReadSession:   global(get[ReadSession, None]("sessions/{session}/messages", Authenticated, "The lines of a session that is read in pages.")),
		AnswerSession: global(post[AnswerSession, Refusals]("sessions/{session}/answers", Authenticated, "Answer the records of a session.")),
		EndSession:    global(remove[SessionRef, None]("sessions/{session}", Authenticated, "End a session in good order.")),

		ListRings:     get[None, List[Ring]]("rings", RingRead, "The rings."),
		DescribeRing:  get[RingRef, *Ring]("rings/{ring}", RingRead, "A ring with its members."),
		FindRingOwner: get[RingKey, *RingOwner]("rings/{ring}/owner", RingRead, "Which member of a ring has a key."),

		Check:                get[RunCheck, *Check]("check", NamespaceRead, "A check for monitoring."),
		ExplainSubscribedKey: get[SubscribedKeyRef, *KeyAnswer]("subscriptions/{subscription}/keys/{key}", SubRead, "Where the records of a key are, and what holds them back."),
		Status:               get[None, *Status]("status", NamespaceRead, "All that is wrong in a namespace, worst first."),
		ExplainKey:           get[KeyRef, *KeyAnswer]("groups/{group}/keys/{key}", GroupRead, "Where the records of a key are, and what holds them back."),
	}
	for i, route := range r.All() {
		route.Name = reflect.TypeFor[Routes]().Field(i).Name
	}
	return r
}

// List is an answer with several entries.
type List[T any] struct {
	Items []T `json:"items"`
}

// TopicRef names a topic.
type TopicRef struct {
	Topic string `path:"topic"`
}

// CreateTopic makes a topic.
type CreateTopic struct {
	TopicRef
	New  bool `query:"new"` // refuse a topic that is there
	Body NewTopic
}

// NewTopic is what a topic is made with.
type NewTopic struct {
	Partitions int       `json:"partitions"`
	Router     Router    `json:"router,omitempty"` // default modulo
	Hash       Hash      `json:"hash,omitempty"`   // default xxhash64
	Retention  Retention `json:"retention,omitzero"`
	ID         string    `json:"id,omitempty"` // of a topic whose storage topics are taken up
}

// AlterTopic changes a retention.
type AlterTopic struct {
	TopicRef
	DryRun bool   `query:"dry-run"`
	Life   string `query:"life"` // the ID of the topic that is meant
	Body   Retention
}

// DeleteTopic deletes a topic.
type DeleteTopic struct {
	TopicRef
	Force  bool   `query:"force"`
	DryRun bool   `query:"dry-run"`
	Life   string `query:"life"` // the ID of the topic that is meant
}

// AddStorage adds a storage topic.
type AddStorage struct {
	TopicRef
	Body Partitions
}

// Partitions is a number of partitions.
type Partitions struct {
	Partitions int `json:"partitions"`
}

// RepairTopic brings a definition forward.
type RepairTopic struct {
	TopicRef
	DryRun bool `query:"dry-run"`
}

// Produce appends records. The body is one record in JSON, or with Content-Type application/x-ndjson one a line; each has
// what [Record] has of key, value, headers and timestamp.
type Produce struct {
	TopicRef
	Partition *int   `query:"partition"`
	Producer  string `header:"Ringfence-Producer"` // ID/SEQUENCE/HOME of the first record
}

// Produced says where records are.
type Produced struct {
	Records []Place `json:"records"` // in their order
}

// Place is the place of a record, or why it has none.
type Place struct {
	Storage   int    `json:"storage"` // -1: it is not known to be stored
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
	Type      string `json:"type,omitempty"`   // as [Problem.Type]; "": the record is stored
	Detail    string `json:"detail,omitempty"` // as [Problem.Detail]
	Stored    Stored `json:"stored,omitempty"` // as [Problem.Stored]
}

// ReadRecords reads records.
type ReadRecords struct {
	TopicRef
	From       string  `query:"from"` // earliest, latest, an offset, a time, or "-15m"
	Partitions []int   `query:"partition"`
	Storage    *int    `query:"storage"`
	Key        *string `query:"key"`
	Limit      int     `query:"limit"`  // records
	Follow     bool    `query:"follow"` // wait for more
}

// ListGroups lists groups.
type ListGroups struct {
	Measure bool `query:"measure"` // with units and lag
}

// GroupRef names a group.
type GroupRef struct {
	Group string `path:"group"`
}

// PauseGroup stops or resumes partitions.
type PauseGroup struct {
	GroupRef
	Partitions []int `query:"partition"` // none: all
}

// SeekGroup sends a group to a place.
type SeekGroup struct {
	GroupRef
	To         string `query:"to"` // earliest, latest, an offset, a time, or "-15m"
	Partitions []int  `query:"partition"`
	Storage    *int   `query:"storage"`
	DryRun     bool   `query:"dry-run"`
}

// DeleteGroup deletes a group.
type DeleteGroup struct {
	GroupRef
	Force bool `query:"force"`
}

// KeyRef names a key in a group or a subscription.
type KeyRef struct {
	Group    string `path:"group"`
	Key      string `path:"key"`
	Encoding string `query:"encoding"` // base64: of Key
}

// SubscribedKeyRef names a key in a subscription.
type SubscribedKeyRef struct {
	SubscriptionRef
	Key      string `path:"key"`
	Encoding string `query:"encoding"` // base64: of Key
}

// SubscriptionRef names a subscription.
type SubscriptionRef struct {
	Subscription string `path:"subscription"`
}

// ListSubscriptions lists subscriptions.
type ListSubscriptions struct {
	Measure bool `query:"measure"` // with all that DescribeSubscription says
}

// CreateSubscription makes a subscription.
type CreateSubscription struct {
	SubscriptionRef
	Body NewSubscription
}

// NewSubscription is what a subscription is made with. Only the topic is required.
type NewSubscription struct {
	Topic       string           `json:"topic"`
	Order       Order            `json:"order,omitempty"`
	Shards      int              `json:"shards,omitempty"`
	From        From             `json:"from,omitempty"`
	Retry       Retry            `json:"retry,omitzero"`
	DeadLetters DeadLetterPolicy `json:"dead_letters,omitempty"`
	Endpoint    *Endpoint        `json:"endpoint,omitempty"`
	Filter      string           `json:"filter,omitempty"`
	Limits      *Limits          `json:"limits,omitempty"`
}

// AlterSubscription changes a subscription: the body has the fields of [NewSubscription] that change.
type AlterSubscription struct {
	SubscriptionRef
	Life string `query:"life"` // the ID of the subscription that is meant
	Body json.RawMessage
}

// PauseSubscription pauses a subscription.
type PauseSubscription struct {
	SubscriptionRef
	Body PauseReason
}

// PauseReason is why something is paused.
type PauseReason struct {
	Reason string `json:"reason,omitempty"`
}

// RetrySubscription chooses among failing records; none: all.
type RetrySubscription struct {
	SubscriptionRef
	IDs []string `query:"id"`
	Key *string  `query:"key"`
}

// ReshardSubscription changes the number of shards.
type ReshardSubscription struct {
	SubscriptionRef
	Shards int  `query:"shards"`
	DryRun bool `query:"dry-run"`
}

// ResetSubscription sends a subscription to a place.
type ResetSubscription struct {
	SubscriptionRef
	To         string `query:"to"` // earliest, latest, an offset, a time, or "-15m"
	Storage    *int   `query:"storage"`
	Partitions []int  `query:"partition"`
	DropParked bool   `query:"drop-parked"`
	DryRun     bool   `query:"dry-run"`
}

// DeleteSubscription deletes a subscription.
type DeleteSubscription struct {
	SubscriptionRef
	Force  bool `query:"force"`
	DryRun bool `query:"dry-run"`
}

// DeadLetters chooses among dead letters; no choice: all.
type DeadLetters struct {
	SubscriptionRef
	IDs     []string `query:"id"`
	Key     *string  `query:"key"`
	Since   Time     `query:"since"`
	Filter  string   `query:"filter"`
	Decided bool     `query:"decided"` // list also those that were decided about
	DryRun  bool     `query:"dry-run"`
}

// EditDeadLetter gives a dead letter another value.
type EditDeadLetter struct {
	SubscriptionRef
	Letter string `path:"letter"`
	Body   NewValue
}

// NewValue is the value of a record.
type NewValue struct {
	Value         string `json:"value"`
	ValueEncoding string `json:"value_encoding,omitempty"`
}

// RingRef names a ring.
type RingRef struct {
	Ring string `path:"ring"`
}

// RingKey asks for the owner of a key.
type RingKey struct {
	RingRef
	Key string `query:"key"`
}

// RunCheck runs a check.
type RunCheck struct {
	What  string   `query:"what"` // lag, age, dead-letters, owners or all
	Warn  *float64 `query:"warn"`
	Crit  *float64 `query:"crit"`
	Names []string `query:"name"` // of groups and subscriptions; none: all
}

// JoinGroup begins a session of a member. With Accept: application/x-ndjson its lines are the answer; else the answer is
// its first line, and it is read in pages.
type JoinGroup struct {
	GroupRef
	Body NewMember
}

// NewMember is what a session of a member is begun with.
type NewMember struct {
	Topic   string `json:"topic,omitempty"`    // of a new group
	From    string `json:"from,omitempty"`     // where a new group begins: earliest or latest
	Member  string `json:"member,omitempty"`   // the newest start of a name fences the others; default: a random one
	Weight  int    `json:"weight,omitempty"`   //
	Zone    string `json:"zone,omitempty"`     //
	DrainMS int64  `json:"drain_ms,omitempty"` // how long a revoked partition may take; default 10 s
	NewWorker
}

// Work begins a session of a worker, as JoinGroup does for a member.
type Work struct {
	SubscriptionRef
	Body NewWorker
}

// NewWorker is what a session of a worker is begun with.
type NewWorker struct {
	Window         int   `json:"window,omitempty"`           // records without an answer; default 256
	WindowBytes    int64 `json:"window_bytes,omitempty"`     // default 8 MiB
	TTLMS          int64 `json:"ttl_ms,omitempty"`           // without a sign of life for so long it is over; default 30 s
	AnswerWithinMS int64 `json:"answer_within_ms,omitempty"` // from the sending of a record to its answer; default: no bound, in pages 10 times the ttl
}

// SessionRef names a session.
type SessionRef struct {
	Session string `path:"session"`
}

// ReadSession reads the next page of a session.
type ReadSession struct {
	SessionRef
	After  int64 `query:"after"`   // the number of the newest line that was read
	WaitMS int64 `query:"wait-ms"` // for how long to wait for lines
}

// AnswerSession answers records.
type AnswerSession struct {
	SessionRef
	Body json.RawMessage // see docs/guide/daemon.md
}

// Refusals are the answers that were not taken.
type Refusals struct {
	Refused []Refusal `json:"refused"`
}

// Refusal is an answer that was not taken.
type Refusal struct {
	N   int64  `json:"n"`
	Why string `json:"why"` // fenced, conflict or unknown
}
