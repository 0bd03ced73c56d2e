package driver

import "context"

// Identifier is what a Log may also be, when it tells topics apart that have one name one after another,
// whoever makes and deletes them. Its topics are Identified then.
type Identifier interface {
	// TopicID is the identity of the topic that has the name now; "": this one has none. fault.NotFound
	// when there is no topic.
	TopicID(ctx context.Context, name string) (string, error)
}

// Identified is what a Topic may also be, see Identifier.
type Identified interface {
	// ID is the identity of the topic that this is a handle of; no other topic of the log ever gets it.
	ID() string
}
